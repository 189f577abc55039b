import { vi } from 'vitest'

/** A stand-in for fetch whose answers are streams that the test writes to. */
export function fakeStreams() {
  const streams: { address: string; write(text: string): void; end(): void; signal: AbortSignal }[] = []
  const asked = vi.fn((address: string, { signal }: { signal: AbortSignal }): Promise<Response> => {
    const pipe = new TransformStream<string, string>()
    const writer = pipe.writable.getWriter()
    const cut = () => void writer.abort(signal.reason).catch(() => undefined)
    signal.addEventListener('abort', cut)
    streams.push({
      address,
      signal,
      write: (text) => void writer.write(text).catch(() => undefined),
      end: () => void writer.close().catch(() => undefined),
    })
    return Promise.resolve(new Response(pipe.readable.pipeThrough(new TextEncoderStream())))
  })
  vi.stubGlobal('fetch', asked)
  return { asked, streams }
}
