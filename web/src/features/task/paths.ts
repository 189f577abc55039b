const str = (value: unknown) => (typeof value === 'string' ? value : '')

/** The file that a tool's call names, else ''. */
export const fileOf = (input: Record<string, unknown>) => str(input.file_path) || str(input.notebook_path)

/** A path as it is in the run's folder; one that leads elsewhere stays as it is. */
export function inFolder(path: string, folder: string): string {
  const root = folder.replace(/\/+$/, '')
  if (root === '') return path
  if (path === root) return '.'
  return path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path
}
