import type { ComponentProps, Ref } from 'react'

/** A box with a scroll bar of its own. It is named and can be focused, so that the keyboard scrolls it. */
export function ScrollBox({ label, ...rest }: ComponentProps<'div'> & { label: string; ref?: Ref<HTMLDivElement> }) {
  // biome-ignore lint/a11y: the keyboard must reach what scrolls; a section would be a landmark, and there can be many
  return <div role="group" tabIndex={0} aria-label={label} {...rest} />
}
