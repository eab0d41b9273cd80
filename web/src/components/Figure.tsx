/** A number with its name, inside a `dl`. */
export function Figure({ name, value, bad = false }: { name: string; value: string; bad?: boolean }) {
  return (
    <div data-bad={bad || undefined}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  )
}
