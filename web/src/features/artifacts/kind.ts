import {
  Braces,
  File,
  FileArchive,
  FileCode,
  FileText,
  Image,
  type LucideIcon,
  MessageSquareText,
  Table2,
} from 'lucide-react'
import type { Artifact } from '@/api/client'

/** How content is shown. */
export type Kind = 'image' | 'html' | 'json' | 'csv' | 'markdown' | 'text' | 'packed' | 'other'

/** A file's place in the worker's folder; nothing for anything else. */
export const pathOf = (a: Artifact) => a.path ?? ''

export function kindOf(a: Artifact): Kind {
  const [media = ''] = a.media_type.split(';')
  const path = pathOf(a).toLowerCase()
  if (/^image\/(gif|jpeg|png|svg\+xml|webp)$/.test(media)) return 'image'
  if (media === 'text/html') return 'html'
  // Events of a run are kept as compressed JSON lines.
  if (media === 'application/gzip') return /\.(jsonl|ndjson|txt|log|json|csv|md)\.gz$/.test(path) ? 'packed' : 'other'
  if (media === 'application/json') return 'json'
  if (media === 'text/csv' || /\.(csv|tsv)$/.test(path)) return 'csv'
  if (media === 'text/markdown' || /\.(md|markdown)$/.test(path) || path === '') return 'markdown'
  return /^text\/|json|xml|yaml|javascript|x-sh/.test(media) ? 'text' : 'other'
}

const icons: Record<Kind, LucideIcon> = {
  image: Image,
  html: FileCode,
  json: Braces,
  csv: Table2,
  markdown: FileText,
  text: FileText,
  packed: FileArchive,
  other: File,
}

export const iconOf = (a: Artifact) => (pathOf(a) ? icons[kindOf(a)] : MessageSquareText)

const endings: Record<string, string> = { 'text/plain': '.txt', 'text/markdown': '.md', 'application/json': '.json' }

/** What an artifact is saved under. */
export const fileNameOf = (a: Artifact) =>
  pathOf(a).split('/').at(-1) || `artifact-${a.id.slice(-8)}${endings[a.media_type.split(';')[0] ?? ''] ?? ''}`

/** What an attempt leaves that failed before it answered. */
export const isEmptyResult = (a: Artifact) => a.type === 'LLM_RESULT' && a.size === 0
