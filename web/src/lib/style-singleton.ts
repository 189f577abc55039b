import { useEffect } from 'react'

/**
 * A component that applies styles to the page while one of it is shown: what the
 * package react-style-singleton does, by a constructed style sheet, which the content
 * security policy allows.
 */
export function styleSingleton() {
  let sheet: CSSStyleSheet | undefined
  let shown = 0
  const add = (styles: string) => {
    if (shown++ > 0) return
    sheet = new CSSStyleSheet()
    sheet.replaceSync(styles)
    document.adoptedStyleSheets.push(sheet)
  }
  const remove = () => {
    if (--shown > 0) return
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet)
  }
  return function Styles({ styles, dynamic }: { styles: string; dynamic?: boolean }) {
    // biome-ignore lint/correctness/useExhaustiveDependencies: others are only taken up where they may change
    useEffect(() => {
      add(styles)
      return remove
    }, [dynamic && styles])
    return null
  }
}
