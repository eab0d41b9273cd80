// Fields above a table that select what it shows.
import { useTranslate } from "../locales"
import { Select } from "./Select"

interface FilterProps {
  label: string
  value: string
  onChange: (value: string) => void
}

export function TextFilter({ label, value, onChange }: FilterProps) {
  return (
    <label>
      <span>{label}</span>
      <input value={value} onChange={(event) => onChange(event.target.value)} />
    </label>
  )
}

interface SelectFilterProps<T extends string> extends FilterProps {
  options: readonly T[]
  describe: (option: T) => string
}

/** A choice of one of the options, or of any. */
export function SelectFilter<T extends string>({ label, value, onChange, options, describe }: SelectFilterProps<T>) {
  const t = useTranslate()
  return (
    <label>
      <span>{label}</span>
      <Select label={label} value={value} onChange={onChange} options={[{ value: "", label: t("traces.any") }, ...options.map((option) => ({ value: option, label: describe(option) }))]} />
    </label>
  )
}
