/**
 * The question that an answer ends with, else ''. A run that is not told to ask
 * people cannot wait for an answer, so a model that lacks something asks in the end.
 */
export function questionOf(output: string | null | undefined): string {
  const last = (output ?? '').slice(-4000).trimEnd().split('\n').at(-1)?.trim() ?? ''
  const plain = last.replace(/^[-*>#\d.)\s]+/, '').replace(/[*_`"”»)]+$/, '')
  if (!plain.endsWith('?')) return ''
  return plain.replaceAll(/[*_`]+/g, '').slice(-400)
}
