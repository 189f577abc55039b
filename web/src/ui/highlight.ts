import { type ReactNode, useEffect, useMemo, useState } from 'react'

/** More than this stays plain: to colour it would hold up the page. */
const most = 50_000

type Painter = typeof import('./painter')
let painter: Painter | undefined

/** The text's lines with the words of its language coloured; nothing while it is plain. The grammars are fetched when they are wanted. */
export function useHighlight(text: string, language: string): ReactNode[] | undefined {
  const [ready, setReady] = useState(painter)
  useEffect(() => {
    if (language === '' || painter) return
    let gone = false
    const done = (loaded: Painter) => {
      painter = loaded
      if (!gone) setReady(loaded)
    }
    import('./painter').then(done, () => undefined) // plain text will do
    return () => {
      gone = true
    }
  }, [language])
  return useMemo(
    () => (ready && language !== '' && text.length <= most ? ready.paint(text, language) : undefined),
    [ready, text, language],
  )
}
