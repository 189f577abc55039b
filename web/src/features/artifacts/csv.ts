/** A table with at most so many columns is shown. */
const mostColumns = 50

/** The first rows of comma-, semicolon- or tab-separated text (RFC 4180). */
export function rowsOf(text: string, atMost: number): string[][] {
  const line = text.slice(0, (text.indexOf('\n') + 1 || text.length + 1) - 1)
  const separator = ['\t', ';', ','].reduce((a, b) => (line.split(b).length > line.split(a).length ? b : a))
  const rows: string[][] = []
  let row: string[] = []
  let cell = ''
  let quoted = false
  const end = () => {
    if (row.length < mostColumns) row.push(cell)
    cell = ''
  }
  for (let i = text.charCodeAt(0) === 0xfeff ? 1 : 0; i < text.length && rows.length < atMost; i++) {
    const c = text[i]
    if (quoted) {
      if (c !== '"') cell += c
      else if (text[i + 1] === '"') cell += text[i++]
      else quoted = false
    } else if (c === '"' && cell === '') quoted = true
    else if (c === separator) end()
    else if (c === '\n') {
      end()
      rows.push(row)
      row = []
    } else if (c !== '\r') cell += c
  }
  if (rows.length < atMost && (cell !== '' || row.length > 0)) {
    end()
    rows.push(row)
  }
  return rows
}
