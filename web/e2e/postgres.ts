import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { freePort } from './ports'

/** The folder of PostgreSQL's programs: BLOOM_PG_BIN, Debian's newest, or what the PATH has. */
function binaries() {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : []
  const folders = [process.env.BLOOM_PG_BIN ?? '', ...versions.map((v) => path.join(debian, v, 'bin'))]
  return folders.find((dir) => dir && existsSync(path.join(dir, 'postgres'))) ?? ''
}

/** A PostgreSQL of one test, which may stop it and start it again. */
export class Postgres {
  private readonly dir = mkdtempSync(path.join(tmpdir(), 'bloom-web-pg-'))
  private readonly bin = binaries()
  private readonly options = { cwd: this.dir, ...this.unprivileged() }
  private port = 0
  private child: ChildProcess | undefined

  get url() {
    return `postgres://bloom@127.0.0.1:${this.port}/postgres`
  }

  /** PostgreSQL refuses to run as root. */
  private unprivileged() {
    if (process.getuid?.() !== 0) return {}
    const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
    const as = { uid: id('-u'), gid: id('-g') }
    chownSync(this.dir, as.uid, as.gid)
    return as
  }

  async start() {
    if (!this.port) {
      this.port = await freePort()
      const args = ['-D', `${this.dir}/data`, '-U', 'bloom', '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync']
      execFileSync(path.join(this.bin, 'initdb'), args, { ...this.options, stdio: 'pipe' })
    }
    const args = ['-D', `${this.dir}/data`, '-h', '127.0.0.1', '-p', String(this.port), '-k', '', '-F']
    const child = spawn(path.join(this.bin, 'postgres'), args, { ...this.options, stdio: ['ignore', 'ignore', 'pipe'] })
    this.child = child
    await new Promise<void>((resolve, reject) => {
      let log = ''
      child.stderr.on('data', (text: Buffer) => {
        log += text.toString()
        if (log.includes('ready to accept connections')) resolve()
      })
      child.once('error', reject)
      child.once('exit', () => reject(new Error(`PostgreSQL did not start:\n${log}`)))
    })
  }

  /** Ends it and all its connections. */
  async stop() {
    const child = this.child
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGQUIT')
    await gone
  }

  async close() {
    await this.stop()
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
}
