import type { TFunction } from 'i18next'

/** Why attempts fail, as the server names it; each has its words under task.why. */
export const errorClasses = [
  'timeout',
  'rate_limited',
  'auth',
  'provider_error',
  'budget_exceeded',
  'context_too_long',
  'refused',
  'incomplete',
  'invalid_input',
  'permission_denied',
  'output_invalid',
  'crashed',
  'worker_lost',
  'internal',
] as const

/** Why an attempt failed, in words; a class that is not known here as it is. */
export function causeOf(name: string, t: TFunction): string {
  const known = errorClasses.find((k) => k === name)
  return known ? t(`task.why.${known}.what`) : name
}
