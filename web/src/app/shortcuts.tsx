import { useNavigate } from '@tanstack/react-router'
import { lazy, Suspense, useEffect, useState } from 'react'

const Palette = lazy(() => import('./palette'))
const Help = lazy(() => import('./help'))

/** What follows G. */
const goes = {
  o: '/',
  t: '/tasks',
  c: '/contexts',
  a: '/artifacts',
  s: '/schedules',
  w: '/workers',
} as const

const opens = new EventTarget()
export const openPalette = () => opens.dispatchEvent(new Event('palette'))
export const openHelp = () => opens.dispatchEvent(new Event('help'))

const typing = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

/** The keyboard's shortcuts, the command palette and the help that lists them. */
export function Shortcuts() {
  const navigate = useNavigate()
  const [palette, setPalette] = useState(false)
  const [help, setHelp] = useState(false)

  useEffect(() => {
    let leader = 0
    const show = () => setPalette(true)
    const showHelp = () => setHelp(true)
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        setPalette((open) => !open)
        return
      }
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return
      const afterG = Date.now() - leader < 1200
      leader = 0
      const act = () => {
        switch (event.key) {
          case '/': {
            const box = document.querySelector<HTMLInputElement>('[data-search]')
            if (box) box.focus()
            else setPalette(true)
            return true
          }
          case '?':
            setHelp(true)
            return true
          case 'n':
            void navigate({ to: '/tasks/new' })
            return true
          case 'g':
            leader = Date.now()
            return true
        }
        const to = afterG && goes[event.key as keyof typeof goes]
        if (to) void navigate({ to })
        return Boolean(to)
      }
      if (act()) event.preventDefault()
    }
    addEventListener('keydown', press)
    opens.addEventListener('palette', show)
    opens.addEventListener('help', showHelp)
    return () => {
      removeEventListener('keydown', press)
      opens.removeEventListener('palette', show)
      opens.removeEventListener('help', showHelp)
    }
  }, [navigate])

  return (
    <>
      {palette && (
        <Suspense>
          <Palette open={palette} onOpenChange={setPalette} onHelp={() => setHelp(true)} />
        </Suspense>
      )}
      {help && (
        <Suspense>
          <Help onClose={() => setHelp(false)} />
        </Suspense>
      )}
    </>
  )
}
