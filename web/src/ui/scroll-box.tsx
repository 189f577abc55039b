import type { ComponentProps } from 'react'

/** A box with a scroll bar of its own. It is named and can be focused, so that the keyboard scrolls it. */
export function ScrollBox({ label, ...rest }: ComponentProps<'section'> & { label: string }) {
  // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must reach what scrolls
  return <section tabIndex={0} aria-label={label} {...rest} />
}
