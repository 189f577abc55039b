import { ChevronDown, Columns3 } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { Button } from '@/ui/button'
import { Menu, MenuCheck, MenuItem, MenuLine } from '@/ui/menu'
import { type ColumnName, columnNames, defaultColumns } from './view'

/** The menu of the columns that the list shows. undefined: those that it has at first. */
export function Columns({
  columns,
  onChange,
}: {
  columns: ColumnName[]
  onChange: (next: ColumnName[] | undefined) => void
}) {
  const { t } = useTranslation()
  return (
    <Menu
      align="start"
      trigger={
        <Button>
          <Columns3 className="size-4" aria-hidden />
          {t('tasks.columns.label')}
          <ChevronDown className="size-4 text-ink-3" aria-hidden />
        </Button>
      }
    >
      {columnNames.map((name) => (
        <MenuCheck
          key={name}
          checked={columns.includes(name)}
          onChange={(on) => onChange(columnNames.filter((n) => (n === name ? on : columns.includes(n))))}
        >
          {t(`tasks.columns.${name}`)}
        </MenuCheck>
      ))}
      <MenuLine />
      <MenuItem disabled={columns.join() === defaultColumns.join()} onSelect={() => onChange(undefined)}>
        {t('tasks.columns.reset')}
      </MenuItem>
    </Menu>
  )
}
