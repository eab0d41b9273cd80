// The figures of a chart as a table that only screen readers see.
import { formatDateTime } from "../app/format"
import { useLanguage } from "../locales"

export function ScreenReaderTable({ title, rows }: { title: string; rows: { at: number; cells: string[] }[] }) {
  const language = useLanguage()
  return (
    <div className="visually-hidden">
      <table>
        <caption>{title}</caption>
        <tbody>
          {rows.map((row) => (
            <tr key={row.at}>
              <th scope="row">{formatDateTime(row.at, language)}</th>
              {row.cells.map((cell) => (
                <td key={cell}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
