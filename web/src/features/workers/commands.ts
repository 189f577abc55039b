import { useQuery } from '@tanstack/react-query'
import { health } from '@/api/queries'

const isLoopback = (host: string) => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(host)

/** Where a server that was opened on its own machine is for others: who copies a command fills it in. */
const elsewhere = () =>
  isLoopback(location.hostname)
    ? `${location.protocol}//SERVER${location.port && `:${location.port}`}`
    : location.origin

/** The commands that people copy, as they work with this server. */
export function useCommands() {
  const { data } = useQuery(health)
  const privateCA = data?.private_ca === true
  const keyed = data?.auth === 'keys'
  // Opened through a proxy, it is reached by others, too.
  const onlyHere = isLoopback(location.hostname) && data?.loopback_only === true
  const server = onlyHere ? location.origin : elsewhere()
  const ca = privateCA ? ' --ca-file ca.pem' : ''
  return {
    keyed,
    onlyHere,
    named: !onlyHere && isLoopback(location.hostname),
    privateCA,
    worker: (name = '', at = server) =>
      `bloom worker --runtime-url ${at}${keyed ? ' --key-file worker.key' : ''}${ca}${name && ` --name ${name}`}`,
    install: (key: string, name = '') =>
      `curl -fsSL${privateCA ? ' --cacert ca.pem' : ''} ${server}/install.sh | sudo sh -s --${name && ` --name ${name}`} --key ${key}${ca}`,
    task: `bloom task run --url ${location.origin}${keyed ? ' --key-file bloom.key' : ''}${ca} "Write a haiku about durable queues"`,
  }
}
