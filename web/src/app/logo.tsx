import { Link } from '@tanstack/react-router'

const petals = [0, 72, 144, 216, 288]

export function Logo() {
  return (
    <Link to="/" className="flex items-center gap-2.5 rounded-lg px-1.5 py-0.5">
      <svg viewBox="0 0 32 32" className="size-7" aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="#5b3fd6" />
        {petals.map((angle) => (
          <ellipse
            key={angle}
            cx="16"
            cy="9.6"
            rx="3.4"
            ry="5.2"
            transform={`rotate(${angle} 16 16)`}
            fill="#fff"
            opacity="0.9"
          />
        ))}
        <circle cx="16" cy="16" r="2.6" fill="#ffc94d" />
      </svg>
      <span className="text-[15px] font-semibold tracking-[-0.01em]">
        {'BLOOM'} <span className="font-normal text-ink-3">{'Runtime'}</span>
      </span>
    </Link>
  )
}
