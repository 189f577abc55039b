import { useTranslation } from 'react-i18next'

/** As the server and workers name them; an upload may name another. */
export const types = ['FILE', 'LLM_RESULT', 'transcript'] as const

export function useTypeName() {
  const { t } = useTranslation()
  return (type: string) => {
    const known = types.find((k) => k === type)
    return known ? t(`artifacts.types.${known}`) : type
  }
}
