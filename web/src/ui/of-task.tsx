import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Input } from './field'

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Searches a list by a task's id. onChange has the whole id, or nothing while it is not whole. */
export function OfTask({ onChange }: { onChange: (id: string) => void }) {
  const { t } = useTranslation()
  const [text, setText] = useState('')
  const whole = (value: string) => (uuid.test(value.trim()) ? value.trim() : '')
  const partial = text.trim() !== '' && whole(text) === ''
  return (
    <>
      <Input
        data-search=""
        type="search"
        aria-label={t('ui.ofTask')}
        aria-describedby={partial ? 'of-task' : undefined}
        placeholder={t('ui.ofTask')}
        value={text}
        onChange={(e) => {
          setText(e.target.value)
          onChange(whole(e.target.value))
        }}
        className="w-48 grow sm:w-72 sm:grow-0"
      />
      {partial && (
        <p id="of-task" role="status" className="order-last w-full text-xs text-ink-3">
          {t('ui.wholeId')}
        </p>
      )}
    </>
  )
}
