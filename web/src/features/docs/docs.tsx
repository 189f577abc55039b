import 'rapidoc/dist/rapidoc-min.js'
import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { session } from '@/api/session'
import { useShownTheme } from '@/lib/preferences'
import { Page } from '@/ui/page'
import { ScrollBox } from '@/ui/scroll-box'
import { Loaded } from '@/ui/states'

interface Spec {
  tags?: { name: string }[]
  paths: Record<string, Record<string, { tags?: string[] }>>
}

interface RapiDoc extends HTMLElement {
  loadSpec(spec: Spec): void
}

const first = ['tasks', 'leases', 'workers', 'records']

/** Within a group: what the group is about first, what goes with it later. */
const rank = (path: string) => (path.includes('/llm-tasks') ? path.split('/').length : 100)

/** The description with its groups in the order that people need them. */
function ordered(spec: Spec): Spec {
  const named = new Set(Object.values(spec.paths).flatMap((path) => Object.values(path).flatMap((op) => op.tags ?? [])))
  const place = (name: string) =>
    first.includes(name.toLowerCase()) ? first.indexOf(name.toLowerCase()) : first.length
  const paths = Object.entries(spec.paths).sort(([a], [b]) => rank(a) - rank(b))
  return {
    ...spec,
    paths: Object.fromEntries(paths),
    tags: [...named].sort((a, b) => place(a) - place(b) || a.localeCompare(b)).map((name) => ({ name })),
  }
}

/** The reference of the API, which also sends requests. All of it comes from this server. */
export default function Docs() {
  const { t } = useTranslation()
  const query = useQuery({
    queryKey: ['openapi'],
    queryFn: async () => (await (await fetch('/openapi.json')).json()) as Spec,
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <Page title={t('app.nav.docs')} lead={t('docs.lead')}>
      <Loaded query={query}>{(spec) => <Reference spec={spec} />}</Loaded>
    </Page>
  )
}

function Reference({ spec }: { spec: Spec }) {
  const { t } = useTranslation()
  const box = useRef<HTMLDivElement>(null)
  const theme = useShownTheme()
  const { data: now } = useQuery(session)
  const known = now?.role !== undefined && now.role !== ''
  useEffect(() => {
    const host = box.current
    if (!host) return
    const style = getComputedStyle(document.documentElement)
    const colour = (token: string) => style.getPropertyValue(token).trim()
    const element = document.createElement('rapi-doc') as RapiDoc
    const attributes: Record<string, string> = {
      'render-style': 'view',
      'load-fonts': 'false',
      'show-header': 'false',
      'allow-spec-url-load': 'false',
      'allow-spec-file-load': 'false',
      'allow-server-selection': 'false',
      'show-info': 'false',
      'sort-tags': 'false',
      'sort-endpoints-by': 'none',
      // Whoever is signed in, or needs no key, sends requests with what the browser has.
      'allow-authentication': String(!known),
      'schema-style': 'table',
      'regular-font': 'Onest Variable',
      'mono-font': 'JetBrains Mono Variable',
      theme,
      'bg-color': colour('--canvas'),
      'text-color': colour('--ink'),
      'primary-color': colour('--accent'),
      'server-url': location.origin,
    }
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
    element.style.setProperty('--red', colour('--bad'))
    host.replaceChildren(element)
    // Its one line above the groups has a size of its own, and no room on a phone.
    const small = new CSSStyleSheet()
    small.replaceSync(
      'div[style*="justify-content:flex-end"] { font-size: 13px; justify-content: flex-start !important; padding-left: 12px }',
    )
    element.shadowRoot?.adoptedStyleSheets.push(small)
    element.loadSpec(ordered(spec))
    return () => host.replaceChildren()
  }, [spec, theme, known])
  return <ScrollBox label={t('app.nav.docs')} ref={box} className="min-h-96 overflow-x-auto" />
}
