import { type Order, Source } from './source'

/** The tabs that want changes: those that are left or long hidden do not. */
const tabs = new Set<MessagePort>()

const source = new Source((news) => {
  for (const tab of tabs) tab.postMessage(news)
})

/** A browser has six connections to a server over HTTP/1.1: all its tabs share one stream. */
function serve(tab: MessagePort, order: Order) {
  if (order !== 'stop') {
    tabs.add(tab)
    return source[order]()
  }
  tabs.delete(tab)
  if (tabs.size === 0) source.stop()
}

addEventListener('connect', (event) => {
  const [tab] = (event as MessageEvent).ports
  if (tab) tab.onmessage = ({ data }) => serve(tab, data as Order)
})
