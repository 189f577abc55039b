import type { components } from './schema'

export interface FieldProblem {
  field: string
  message: string
}

/** A refusal by the server, or no answer at all (status 0). */
export class ApiError extends Error {
  override name = 'ApiError'
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
    readonly details: FieldProblem[] = [],
    readonly requestId = '',
    /** What was decided first, where a second decision was refused. */
    readonly decided?: components['schemas']['Approval'],
  ) {
    super(message)
  }
  get offline() {
    return this.status === 0
  }
}

export const signedOut = new EventTarget()

/** What a refusing answer says. Anything that is not ours (a proxy's page, say) counts as unreachable. */
export async function failureOf(response: Response): Promise<ApiError> {
  let body: Partial<components['schemas']['Failure']> = {}
  try {
    body = await response.clone().json()
  } catch {
    // not ours
  }
  if (typeof body.error !== 'string' || typeof body.code !== 'string') {
    return new ApiError('', 0, 'unreachable')
  }
  if (response.status === 401) signedOut.dispatchEvent(new Event('signed-out'))
  return new ApiError(body.error, response.status, body.code, body.details ?? [], body.request_id ?? '', body.decided)
}
