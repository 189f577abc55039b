import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { createPortal } from 'react-dom'

const delay = 350
const margin = 8

/**
 * A tooltip: on hover after a moment, on keyboard focus at once; Escape hides it. It is for eyes only: a screen
 * reader has the child's own name, and would find the tooltip outside of every landmark and dialog.
 */
export function Tip({ text, children }: { text: ReactNode; children: ReactNode }) {
  const host = useRef<HTMLSpanElement>(null)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const [at, setAt] = useState<DOMRect | null>(null)
  const show = (after: number) => {
    clearTimeout(timer.current)
    timer.current = setTimeout(() => setAt(host.current?.firstElementChild?.getBoundingClientRect() ?? null), after)
  }
  const hide = () => {
    clearTimeout(timer.current)
    setAt(null)
  }
  useEffect(() => () => clearTimeout(timer.current), [])
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it only looks at what is done to its child
    <span
      ref={host}
      className="contents"
      onPointerEnter={(e) => e.pointerType !== 'touch' && show(delay)}
      onPointerLeave={hide}
      onPointerDown={hide}
      onFocus={(e) => e.target.matches(':focus-visible') && show(0)}
      onBlur={hide}
    >
      {children}
      {at && (
        <Bubble at={at} onGone={hide}>
          {text}
        </Bubble>
      )}
    </span>
  )
}

function Bubble({ at, onGone, children }: { at: DOMRect; onGone: () => void; children: ReactNode }) {
  const box = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => {
    const { style, offsetWidth, offsetHeight } = box.current as HTMLDivElement
    const below = at.bottom + 6
    const left = at.left + at.width / 2 - offsetWidth / 2
    style.left = `${Math.max(margin, Math.min(left, innerWidth - offsetWidth - margin))}px`
    style.top = `${below + offsetHeight > innerHeight ? at.top - offsetHeight - 6 : below}px`
  }, [at])
  useEffect(() => {
    const press = (event: KeyboardEvent) => event.key === 'Escape' && onGone()
    addEventListener('keydown', press)
    addEventListener('scroll', onGone, true)
    return () => {
      removeEventListener('keydown', press)
      removeEventListener('scroll', onGone, true)
    }
  })
  return createPortal(
    <div
      ref={box}
      aria-hidden
      className="appear pointer-events-none fixed z-50 max-w-xs rounded-md bg-ink px-2 py-1 text-xs text-canvas shadow-float"
    >
      {children}
    </div>,
    document.body,
  )
}
