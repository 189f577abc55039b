// Packs dist into internal/webui/dist for embedding: text is kept as brotli and
// gzip only, what is compressed already as it is.
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

const from = fileURLToPath(new URL('../dist/', import.meta.url))
const to = fileURLToPath(new URL('../../internal/webui/dist/', import.meta.url))
const text = /\.(html|js|css|svg|json|webmanifest|txt)$/
const brotli = promisify(brotliCompress)
const zip = promisify(gzip)

for (const old of await readdir(to)) {
  if (old !== '.gitignore') await rm(path.join(to, old), { recursive: true })
}
let count = 0
for (const entry of await readdir(from, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue
  const source = path.join(entry.parentPath, entry.name)
  const target = path.join(to, path.relative(from, source))
  const content = await readFile(source)
  await mkdir(path.dirname(target), { recursive: true })
  count++
  if (!text.test(entry.name)) {
    await writeFile(target, content)
    continue
  }
  const options = {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: content.length },
  }
  await writeFile(`${target}.br`, await brotli(content, options))
  await writeFile(`${target}.gz`, await zip(content, { level: 9 }))
}
console.log(`packed ${count} files into internal/webui/dist`)
