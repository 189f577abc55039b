/** Why attempts fail, as the server names it; each has its words under task.why. */
export const errorClasses = [
  'timeout',
  'rate_limited',
  'auth',
  'provider_error',
  'budget_exceeded',
  'context_too_long',
  'invalid_input',
  'permission_denied',
  'output_invalid',
  'crashed',
  'worker_lost',
  'internal',
] as const
