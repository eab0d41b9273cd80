// The result of a call, shown as what it is: a picture, a table, links, a text, or else JSON.
import { useMemo } from "react"
import { CsvButton } from "../components/markdown/CsvButton"
import { JsonView } from "../components/JsonView"
import { findNumberColumns } from "../components/markdown/tableText"
import type { Result } from "../wire/types"
import { LargeResult } from "./LargeResult"
import { chooseDisplay, addParts, type ResultDisplay } from "./resultDisplay"

/** From this length on a result is opened in a viewer, instead of being a wall of text. */
const LARGE_CHARS = 6000

export function ResultView({ result, brief = false }: { result: Result; brief?: boolean }) {
  const display = useMemo(() => addParts(chooseDisplay(result.content), result.parts ?? []), [result])
  if (brief && !isPicture(display)) return null
  if (!brief && result.content.length > LARGE_CHARS && (display.kind === "text" || display.kind === "json")) return <LargeResult tool={result.tool} content={result.content} />
  return <DisplayView display={brief ? keepPictures(display) : display} />
}

/**
 * Return whether a result is likely to hold a picture, which is shown without opening the card. This runs for every card in
 * every render, so it looks at the text instead of parsing it.
 */
export function mayHavePicture(result: Result): boolean {
  return Boolean(result.parts?.length) || result.content.includes("data:image/") || result.content.includes('"image"')
}

function keepPictures(display: ResultDisplay): ResultDisplay {
  return display.kind === "several" ? { kind: "several", parts: display.parts.filter(isPicture) } : display
}

function isPicture(display: ResultDisplay): boolean {
  return display.kind === "image" || (display.kind === "several" && display.parts.some(isPicture))
}

export function DisplayView({ display }: { display: ResultDisplay }) {
  switch (display.kind) {
    case "image":
      return <img className="result-image" src={display.url} alt={display.about} />
    case "table":
      return <ResultTable columns={display.columns} rows={display.rows} more={display.more} />
    case "links":
      return (
        <ul className="result-links">
          {display.links.map((link) => (
            <li key={link.url}>
              <a href={link.url} target="_blank" rel="noopener noreferrer">
                {link.title}
              </a>
              {link.about && <small>{link.about}</small>}
            </li>
          ))}
        </ul>
      )
    case "text":
      return <p className="result-text">{display.text}</p>
    case "several":
      return (
        <>
          {display.parts.map((part, index) => (
            <DisplayView key={index} display={part} />
          ))}
        </>
      )
    case "json":
      return <JsonView value={display.value} />
    default:
      return display satisfies never
  }
}

function ResultTable({ columns, rows, more }: { columns: string[]; rows: string[][]; more: number }) {
  const numbers = useMemo(() => findNumberColumns(rows), [rows])
  const classOf = (column: number) => (numbers[column] ? "number" : undefined)
  return (
    <div className="table-block">
      <div className="result-table" tabIndex={0}>
        <table>
          <thead>
            <tr>
              {columns.map((name, column) => (
                <th key={name} scope="col" className={classOf(column)}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <tr key={index}>
                {row.map((cell, column) => (
                  <td key={column} className={classOf(column)}>
                    <Cell text={cell} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
        {more > 0 && <small>+ {more}</small>}
      </div>
      <CsvButton rows={[columns, ...rows]} />
    </div>
  )
}

function Cell({ text }: { text: string }) {
  if (!/^https?:\/\//i.test(text)) return text
  return (
    <a href={text} target="_blank" rel="noopener noreferrer">
      {text}
    </a>
  )
}
