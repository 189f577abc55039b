const bytes = (text: string) => new TextEncoder().encode(text).length

/** A name for an attached file that the server accepts (Attachment.CheckName) and no other file has. */
export function fileName(name: string, taken: string[]): string {
  const plain = name.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}]|[/\\"\uFFFD]/gu, '_') || 'file'
  const whole = /^([-. ~]|claude(\.local)?\.md$)/i.test(plain) ? `_${plain}` : plain
  const ending = /(?<=.)\.[^.]{1,16}$/u.exec(whole)?.[0] ?? ''
  const stem = [...whole.slice(0, whole.length - ending.length)]
  while (bytes(stem.join('') + ending) > 190) stem.pop()
  const others = new Set(taken.map((other) => other.toLowerCase()))
  for (let n = 1; ; n++) {
    const free = `${stem.join('')}${n > 1 ? `-${n}` : ''}${ending}`
    if (!others.has(free.toLowerCase())) return free
  }
}
