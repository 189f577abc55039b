import type { RootContent } from 'hast'
import { common, createLowlight } from 'lowlight'
import type { ReactNode } from 'react'

const lowlight = createLowlight(common)

/** The lines of a text, its words in spans by their kind; undefined for a language that is not known. */
export function paint(text: string, language: string): ReactNode[][] | undefined {
  if (!lowlight.registered(language)) return undefined
  const lines: ReactNode[][] = [[]]
  let key = 0
  const walk = (nodes: RootContent[], look: string) => {
    for (const node of nodes) {
      if (node.type === 'element') {
        const own = node.properties.className
        walk(node.children, Array.isArray(own) ? own.join(' ') : look)
      } else if (node.type === 'text') {
        for (const [i, part] of node.value.split('\n').entries()) {
          if (i > 0) lines.push([])
          if (part === '') continue
          lines.at(-1)?.push(
            look ? (
              <span key={key++} className={look}>
                {part}
              </span>
            ) : (
              part
            ),
          )
        }
      }
    }
  }
  walk(lowlight.highlight(language, text).children, '')
  return lines
}
