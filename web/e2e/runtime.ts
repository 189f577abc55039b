import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { freePort } from './ports'

const root = path.join(import.meta.dirname, '..', '..')
const bin = (name: string) => path.join(root, 'bin', name)

interface Proc {
  child: ChildProcess
  log: () => string
}

const start = (name: string, args: string[], env: NodeJS.ProcessEnv) => launch(bin(name), args, env)

function launch(program: string, args: string[], env: NodeJS.ProcessEnv, cwd?: string): Proc {
  const child = spawn(program, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] })
  let log = ''
  const keep = (text: Buffer) => {
    log = (log + text.toString()).slice(-20_000)
  }
  child.stdout?.on('data', keep)
  child.stderr?.on('data', keep)
  return { child, log: () => log }
}

async function stop(proc: Proc | undefined, signal: NodeJS.Signals = 'SIGTERM') {
  if (!proc || proc.child.exitCode !== null || proc.child.signalCode !== null) return
  const gone = new Promise((resolve) => proc.child.once('exit', resolve))
  proc.child.kill(signal)
  const late = setTimeout(() => proc.child.kill('SIGKILL'), 25_000)
  await gone
  clearTimeout(late)
}

const claude = () =>
  process.env.BLOOM_CLAUDE ?? execFileSync(path.join(root, 'scripts', 'install-claude.sh'), { encoding: 'utf8' }).trim()

const membridgeKey = 'membridge-key-of-the-tests'

/** One runtime of its own: server, worker, claude and the stand-in, as processes that end with the test. */
export class Runtime {
  readonly dir = mkdtempSync(path.join(tmpdir(), 'bloom-web-'))
  url = ''
  private port = 0
  private membridgeUrl = 'http://127.0.0.1:1'
  private membridge: Proc | undefined
  private standin: Proc | undefined
  private server: Proc | undefined
  private readonly workers = new Map<string, Proc>()

  private env(extra: Record<string, string> = {}): NodeJS.ProcessEnv {
    return {
      PATH: process.env.PATH,
      HOME: this.dir,
      TMPDIR: process.env.TMPDIR ?? tmpdir(),
      LANG: 'C.UTF-8',
      CLAUDE_CONFIG_DIR: path.join(this.dir, '.claude'),
      DISABLE_TELEMETRY: '1',
      DISABLE_AUTOUPDATER: '1',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      ANTHROPIC_API_KEY: 'canned-stand-in-key',
      ...extra,
    } as NodeJS.ProcessEnv
  }

  /** key: the admin key that callers must send; none is development mode. more: further flags. */
  async startServer(key = '', more: string[] = []) {
    this.port ||= await freePort()
    this.url = `http://127.0.0.1:${this.port}`
    const args = [
      'server',
      '--listen',
      `127.0.0.1:${this.port}`,
      '--data-dir',
      path.join(this.dir, 'data'),
      '--reap-interval',
      '2s',
      ...more,
    ]
    this.server = start(
      'bloom',
      args,
      this.env({
        MEMBRIDGE_SERVER_URL: this.membridgeUrl,
        MEMBRIDGE_ADMIN_KEY: membridgeKey,
        ...(key ? { RUNTIME_API_KEY: key } : {}),
      }),
    )
    await this.until('the server', async () => (await fetch(`${this.url}/readyz`)).ok, this.server)
  }

  stopServer = () => stop(this.server)

  /** Puts queued tasks into the store of the server, before it starts. */
  async fill(tasks: number) {
    const args = [
      'run',
      '-trimpath',
      '.',
      'fill',
      '-n',
      String(tasks),
      '--queued',
      '100',
      '--data-dir',
      path.join(this.dir, 'data'),
    ]
    const filling = launch('go', args, { ...process.env, CGO_ENABLED: '0' }, path.join(root, 'bench'))
    const code = await new Promise((resolve) => filling.child.once('exit', resolve))
    if (code !== 0) throw new Error(`bench fill: ${code}\n${filling.log()}`)
  }

  /** Starts the control plane with one project of two nodes; before the server. */
  async startMembridge() {
    const port = await freePort()
    this.membridgeUrl = `http://127.0.0.1:${port}`
    const args = ['membridge', '--listen', `127.0.0.1:${port}`, '--data-dir', path.join(this.dir, 'membridge')]
    this.membridge = start('bloom', args, this.env({ MEMBRIDGE_ADMIN_KEY: membridgeKey }))
    await this.until('membridge', async () => (await fetch(`${this.membridgeUrl}/health`)).ok, this.membridge)
    for (const [node, observations] of [
      ['alpine-1', 1284],
      ['raspberry-2', 1279],
    ] as const) {
      await fetch(`${this.membridgeUrl}/agent/heartbeat`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-MEMBRIDGE-ADMIN': membridgeKey },
        body: JSON.stringify({
          node_id: node,
          canonical_id: 'a1b2c3d4e5f60718',
          project_id: 'handbook',
          obs_count: observations,
          db_sha: '9f86d081884c7d659a2feaa0c55ad015',
        }),
      })
    }
  }

  /** Asks the control plane itself. */
  async atMembridge<T>(path: string, body: unknown): Promise<T> {
    const response = await fetch(this.membridgeUrl + path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'X-MEMBRIDGE-ADMIN': membridgeKey },
      body: JSON.stringify(body),
    })
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    return (await response.json()) as T
  }

  async startWorker(name = 'alpine-1', args: string[] = []) {
    if (!this.standin) {
      this.standin = start('bloom-standin', [], this.env())
      await this.until('the stand-in', async () => this.standin?.log().includes('http://') ?? false, this.standin)
    }
    const model = /http:\/\/\S+/.exec(this.standin.log())?.[0] ?? ''
    const workdir = path.join(this.dir, 'work')
    mkdirSync(workdir, { recursive: true })
    const worker = start(
      'bloom',
      ['worker', '--runtime-url', this.url, '--name', name, '--claude', claude(), '--workdir', workdir, ...args],
      this.env({ ANTHROPIC_BASE_URL: model, BLOOM_DATA_DIR: path.join(this.dir, `data-${name}`) }),
    )
    this.workers.set(name, worker)
    await this.until(
      `worker ${name}`,
      async () =>
        (await this.api<{ id: string; status: string }[]>('/workers')).some(
          (w) => w.id === name && w.status === 'online',
        ),
      worker,
    )
  }

  /** Runs a worker's command as the application shows it, in a folder with a key file. */
  runShown(command: string, key: string) {
    writeFileSync(path.join(this.dir, 'worker.key'), key, { mode: 0o600 })
    const env = this.env({ PATH: `${path.dirname(bin('bloom'))}:${process.env.PATH}` })
    this.workers.set('shown', launch('sh', ['-c', `exec ${command}`], env, this.dir))
  }

  killWorker = (name: string) => stop(this.workers.get(name), 'SIGKILL')

  private async until(what: string, ready: () => Promise<boolean>, proc: Proc) {
    for (let tries = 0; tries < 1200; tries++) {
      if (proc.child.exitCode !== null) break
      if (await ready().catch(() => false)) return
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    throw new Error(`${what} did not come up:\n${proc.log()}`)
  }

  async api<T>(path: string, body?: unknown, key = ''): Promise<T> {
    const headers = { 'Content-Type': 'application/json', ...(key ? { 'X-Runtime-API-Key': key } : {}) }
    const response = await fetch(`${this.url}/api/runtime${path}`, {
      headers,
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    })
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    return (await response.json()) as T
  }

  async remove(path: string) {
    const response = await fetch(`${this.url}/api/runtime${path}`, { method: 'DELETE' })
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  }

  /** The role that a key has; undefined when the server does not take it. */
  async role(key: string): Promise<string | undefined> {
    const response = await fetch(`${this.url}/api/runtime/session`, { headers: { 'X-Runtime-API-Key': key } })
    return response.ok ? ((await response.json()) as { role: string }).role || undefined : undefined
  }

  /** A task with time enough for a machine that does other work at the same time. */
  task = (prompt: string, { policy = {}, ...more }: Record<string, unknown> & { policy?: object } = {}) =>
    this.api<{ id: string }>('/llm-tasks', {
      prompt,
      agent_slug: 'assistant',
      context_id: `test-${Math.random()}`,
      policy: { timeout_sec: 900, ...policy },
      ...more,
    })

  /** Saves a schedule that is due every night. */
  async schedule(name: string, spec: Record<string, unknown> = {}) {
    const task = { prompt: 'Look after the night', agent_slug: 'assistant', context_id: 'nights' }
    const answer = await fetch(`${this.url}/api/runtime/schedules/${encodeURIComponent(name)}`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ cron: '0 3 * * *', time_zone: 'Europe/Kyiv', task, ...spec }),
    })
    if (!answer.ok) throw new Error(`schedule ${name}: ${answer.status} ${await answer.text()}`)
  }

  async ended(id: string): Promise<string> {
    for (let tries = 0; tries < 1800; tries++) {
      const { status } = await this.api<{ status: string }>(`/llm-tasks/${id}`)
      if (['completed', 'failed', 'dead', 'cancelled'].includes(status)) return status
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    throw new Error(`task ${id} did not end`)
  }

  async close() {
    await Promise.all([...this.workers.values()].map((w) => stop(w)))
    await stop(this.server)
    await stop(this.standin)
    await stop(this.membridge)
    // What a killed worker had started may still write its last line.
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
}
