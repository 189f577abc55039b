import { useTranslation } from 'react-i18next'
import { useFormat } from '@/lib/format'

/** Says how full workers are. A worker that was started again with fewer slots, or one that was named, may have more tasks than slots. */
export function useSlots() {
  const { t } = useTranslation()
  const format = useFormat()
  return (used: number, all: number) =>
    t(used > all ? 'overview.overfull' : 'overview.slots', {
      count: all,
      used: format.number(used),
      all: format.number(all),
    })
}
