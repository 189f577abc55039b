// Runs before the first paint, so that the page never flashes in the wrong theme
// or language. src/lib/preferences.ts keeps the same names.
;(() => {
  const root = document.documentElement
  let theme = null
  let language = null
  try {
    theme = localStorage.getItem('bloom.theme')
    language = localStorage.getItem('bloom.language')
  } catch {}
  const dark = theme === 'dark' || (theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches)
  root.dataset.theme = dark ? 'dark' : 'light'
  root.lang = language || (/^uk\b/i.test(navigator.language) ? 'uk' : 'en')
})()
