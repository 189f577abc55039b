import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router'
import { CircleUser, Menu as MenuIcon, Plus, Search, X } from 'lucide-react'
import { lazy, Suspense, useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { signedOut } from '@/api/client'
import { health } from '@/api/queries'
import { useReadsOnly } from '@/api/session'
import { Button, buttonClass, IconButton } from '@/ui/button'
import { Kbd } from '@/ui/facts'
import { Toasts } from '@/ui/toast'
import { Connection, Reconnecting } from './connection'
import { Logo } from './logo'
import { Nav } from './nav'
import { openPalette, Shortcuts } from './shortcuts'

export function Shell() {
  const { t } = useTranslation()
  const path = useRouterState({ select: (s) => s.location.pathname })
  const navigate = useNavigate()
  useEffect(() => {
    const go = () => {
      if (location.pathname === '/sign-in') return
      void navigate({ to: '/sign-in', search: { to: location.pathname + location.search } })
    }
    signedOut.addEventListener('signed-out', go)
    return () => signedOut.removeEventListener('signed-out', go)
  }, [navigate])
  if (path === '/sign-in') {
    return (
      <main>
        <Outlet />
      </main>
    )
  }
  return (
    <div className="min-h-dvh lg:grid lg:grid-cols-[228px_minmax(0,1fr)]">
      <a
        href="#main"
        className="sr-only z-50 rounded-lg bg-accent px-3 py-2 text-on-accent focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        {t('app.skip')}
      </a>
      <aside className="sticky top-0 hidden h-dvh flex-col gap-5 overflow-y-auto px-3 py-4 lg:flex">
        <Logo />
        <Nav />
        <Connection />
      </aside>
      <div className="flex min-w-0 flex-col lg:border-l">
        <TopBar />
        <Reconnecting />
        <DevelopmentBanner />
        <main id="main" tabIndex={-1} className="min-w-0 flex-1 outline-none">
          <Outlet />
        </main>
      </div>
      <Shortcuts />
      <Toasts />
    </div>
  )
}

function TopBar() {
  const { t } = useTranslation()
  const readsOnly = useReadsOnly()
  return (
    <header className="sticky top-0 z-30 flex h-13 items-center gap-1 border-b bg-canvas/90 px-3 backdrop-blur-sm sm:px-6 lg:px-8">
      <MobileNav />
      <button
        type="button"
        onClick={openPalette}
        className="mr-auto flex h-8 w-full max-w-72 items-center gap-2 rounded-lg border bg-surface px-2.5 text-[13px] text-ink-3 transition-colors hover:border-line-strong"
      >
        <Search className="size-3.5" aria-hidden />
        <span className="truncate">{t('app.search')}</span>
        <span className="ml-auto hidden gap-1 sm:flex" aria-hidden>
          <Kbd>{/mac/i.test(navigator.platform) ? '⌘' : 'Ctrl'}</Kbd>
          <Kbd>{'K'}</Kbd>
        </span>
      </button>
      {!readsOnly && (
        <Link
          to="/tasks/new"
          className={`${buttonClass('primary', 'sm')} ml-1 max-sm:px-2`}
          aria-label={t('app.newTask')}
        >
          <Plus className="size-4" aria-hidden />
          <span className="max-sm:hidden">{t('app.newTask')}</span>
        </Link>
      )}
      <PersonMenu />
    </header>
  )
}

const drawer = () => import('./mobile-nav')
const Drawer = lazy(drawer)

/** The button that opens the navigation on narrow screens; the drawer is fetched when it is wanted. */
function MobileNav() {
  const { t } = useTranslation()
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button
        look="ghost"
        size="icon"
        className="-ml-1 lg:hidden"
        aria-label={t('app.nav.open')}
        aria-haspopup="dialog"
        onClick={() => setOpen(true)}
        onPointerEnter={drawer}
        onFocus={drawer}
      >
        <MenuIcon className="size-5" aria-hidden />
      </Button>
      {open && (
        <Suspense>
          <Drawer onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  )
}

const menu = () => import('./person-menu')
const Menu = lazy(menu)

/** The person's menu; what it is made of is fetched when it is wanted. */
function PersonMenu() {
  const { t } = useTranslation()
  const [wanted, setWanted] = useState(false)
  const trigger = (
    <button
      type="button"
      aria-label={t('app.person.label')}
      aria-haspopup="menu"
      title={t('app.person.label')}
      className={`${buttonClass('ghost', 'icon')} ml-1`}
      {...(wanted ? {} : { onClick: () => setWanted(true), onPointerEnter: menu, onFocus: menu })}
    >
      <CircleUser className="size-5" aria-hidden />
    </button>
  )
  return wanted ? (
    <Suspense fallback={trigger}>
      <Menu trigger={trigger} />
    </Suspense>
  ) : (
    trigger
  )
}

/** Without keys whoever is on the machine is admin: that must be seen. */
function DevelopmentBanner() {
  const { t } = useTranslation()
  const { data } = useQuery(health)
  const [hidden, setHidden] = useState(false)
  if (!data || data.auth === 'keys' || hidden) return null
  const insecure = data.auth === 'insecure'
  return (
    <aside
      aria-label={insecure ? t('app.insecure.title') : t('app.development.title')}
      className={`flex items-center gap-3 border-b px-4 py-1.5 text-xs sm:px-6 lg:px-8 ${insecure ? 'bg-bad-soft text-bad' : 'bg-warn-soft text-warn'}`}
    >
      <p className="min-w-0 flex-1">
        <strong className="font-semibold">{insecure ? t('app.insecure.title') : t('app.development.title')}</strong>{' '}
        {insecure ? t('app.insecure.text') : t('app.development.text')}
      </p>
      {!insecure && (
        <IconButton label={t('ui.close')} small onClick={() => setHidden(true)} className="text-current">
          <X className="size-3.5" aria-hidden />
        </IconButton>
      )}
    </aside>
  )
}
