// What a chart shows, as a table for those who listen.
import { moment } from "../format"
import { useLanguage } from "../locales"

export function TableToRead({ title, rows }: { title: string; rows: { at: number; cells: string[] }[] }) {
  const language = useLanguage()
  return (
    <div className="unseen">
      <table>
        <caption>{title}</caption>
        <tbody>
          {rows.map((row) => (
            <tr key={row.at}>
              <th scope="row">{moment(row.at, language)}</th>
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
