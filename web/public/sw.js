// Keeps the application's own files, so that it opens when the server is away and
// says so. It never touches the API: what it shows of tasks is always the server's.
const shell = 'bloom-shell'

self.addEventListener('install', (event) => {
  event.waitUntil(
    caches
      .open(shell)
      .then((cache) => cache.addAll(['/', '/boot.js', '/favicon.svg']))
      .then(() => self.skipWaiting()),
  )
})

self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim().then(keepAll)))

self.addEventListener('fetch', (event) => {
  const { request } = event
  const url = new URL(request.url)
  if (request.method !== 'GET' || url.origin !== location.origin) return
  if (url.pathname.startsWith('/assets/')) event.respondWith(kept(request))
  else if (request.mode === 'navigate' && !url.pathname.startsWith('/api')) event.respondWith(page(event, request))
  else if (url.pathname === '/boot.js') event.respondWith(fresh(request, request))
})

// Names in assets/ have a hash of the content: what is kept is right.
async function kept(request) {
  const cache = await caches.open(shell)
  const found = await cache.match(request)
  if (found) return found
  const answer = await fetch(request)
  if (answer.ok) await cache.put(request, answer.clone())
  return answer
}

// Every address of the application is one page.
async function page(event, request) {
  const answer = await fresh(request, '/')
  if (answer.ok) event.waitUntil(forget(await answer.clone().text()))
  return answer
}

async function fresh(request, name) {
  const cache = await caches.open(shell)
  try {
    const answer = await fetch(request)
    // The reference of the API is the same page under a policy of its own.
    if (answer.ok && new URL(request.url).pathname !== '/docs') await cache.put(name, answer.clone())
    return answer
  } catch (error) {
    const found = await cache.match(name)
    if (found) return found
    throw error
  }
}

// A new version of the application: the files of the old one go.
let current = ''
async function forget(html) {
  const entry = /\/assets\/common-[\w-]+\.js/.exec(html)?.[0] ?? ''
  if (entry === current) return
  const cache = await caches.open(shell)
  if (entry && !(await cache.match(entry)))
    for (const request of await cache.keys())
      if (new URL(request.url).pathname.startsWith('/assets/')) await cache.delete(request)
  current = entry
  await keepAll()
}

// Pages that were never opened have to open, too, while the server is away.
async function keepAll() {
  try {
    const cache = await caches.open(shell)
    for (const name of await (await fetch('/files.json')).json()) if (!(await cache.match(name))) await cache.add(name)
  } catch {
    // The server went away meanwhile: the next page that is opened tries again.
  }
}

self.addEventListener('notificationclick', (event) => {
  event.notification.close()
  const to = event.notification.data?.to ?? '/'
  event.waitUntil(
    self.clients
      .matchAll({ type: 'window' })
      .then(([open]) => (open ? open.focus().then((tab) => tab.navigate(to)) : self.clients.openWindow(to))),
  )
})
