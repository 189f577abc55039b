/**
 * The key that somebody signed in with. It lives in this page's memory and
 * nowhere else: a reload forgets it.
 */
let key = ''

export const setKey = (next: string) => {
  key = next
}

export const hasKey = () => key !== ''

/** The headers that every request to the API carries. */
export const keyHeaders = (): Record<string, string> => (key ? { 'X-Runtime-API-Key': key } : {})
