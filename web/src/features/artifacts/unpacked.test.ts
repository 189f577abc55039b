import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { unpacked } from './preview'

const streamOf = (content: Uint8Array) =>
  new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      for (let i = 0; i < content.length; i += 1000) controller.enqueue(new Uint8Array(content.slice(i, i + 1000)))
      controller.close()
    },
  })

describe('a compressed text', () => {
  it('is unpacked', async () => {
    const text = '{"seq":1,"type":"text","data":{"text":"Привіт"}}\n{"seq":2}\n'
    expect(await unpacked(streamOf(gzipSync(text)))).toBe(text)
  })
  it('is unpacked only as far as it is shown, to the end of a line', async () => {
    const line = `${'x'.repeat(99)}\n`
    expect(await unpacked(streamOf(gzipSync(line.repeat(50_000))), 1050)).toBe(line.repeat(10))
  })
  it('that is none fails', async () => {
    await expect(unpacked(streamOf(new TextEncoder().encode('no gzip')))).rejects.toThrow()
  })
})
