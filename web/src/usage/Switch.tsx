interface SwitchProps<T extends string> {
  /** The name of the group for screen readers. */
  label: string
  options: readonly T[]
  value: T
  onChange: (option: T) => void
  describe: (option: T) => string
}

/** A choice of one of a few options, as buttons side by side. */
export function Switch<T extends string>({ label, options, value, onChange, describe }: SwitchProps<T>) {
  return (
    <div className="switch" role="group" aria-label={label}>
      {options.map((option) => (
        <button key={option} type="button" aria-pressed={option === value} onClick={() => onChange(option)}>
          {describe(option)}
        </button>
      ))}
    </div>
  )
}
