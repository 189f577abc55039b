import { ApiError, failureOf } from './failure'

/** Milliseconds without a byte after which a stream is taken for dead: the server sends a heartbeat every 15 s. */
export const silenceLimit = 40_000

export interface StreamReader {
  /** The server has accepted; what follows is current. */
  opened?(): void
  text(text: string): void
}

/** Reads a stream until it ends. Throws if it is refused, breaks or falls silent, and when the signal aborts it. */
export async function readStream(address: string, accept: string, signal: AbortSignal, reader: StreamReader) {
  const silence = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  const heard = () => {
    clearTimeout(timer)
    timer = setTimeout(() => silence.abort(new ApiError('', 0, 'unreachable')), silenceLimit)
  }
  heard()
  try {
    const response = await fetch(address, {
      headers: { Accept: accept },
      signal: AbortSignal.any([signal, silence.signal]),
    })
    if (!response.ok || !response.body) throw await failureOf(response)
    reader.opened?.()
    const body = response.body.pipeThrough(new TextDecoderStream()).getReader()
    for (;;) {
      heard()
      const { done, value } = await body.read()
      if (done) return
      reader.text(value)
    }
  } finally {
    clearTimeout(timer)
  }
}
