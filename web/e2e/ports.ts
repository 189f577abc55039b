import { createServer } from 'node:net'

/** A port that stays free while a server restarts: below those that the system gives to connections. */
export async function freePort(): Promise<number> {
  const isFree = (port: number) =>
    new Promise<boolean>((resolve) => {
      const probe = createServer()
      probe.on('error', () => resolve(false))
      probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
    })
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 18_000) // no client refuses one of these
    if (await isFree(port)) return port
  }
}
