// The result of a call, shown as what it is: a picture, a table, links, a text, or else JSON.
import { useMemo } from "react"
import { JsonView } from "../components/JsonView"
import type { Result } from "../wire/types"
import { chooseDisplay, addParts, type ResultDisplay } from "./resultDisplay"

export function ResultView({ result, brief = false }: { result: Result; brief?: boolean }) {
  const display = useMemo(() => addParts(chooseDisplay(result.content), result.parts ?? []), [result])
  if (brief && !isPicture(display)) return null
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
      return (
        <div className="result-table" tabIndex={0}>
          <table>
            <thead>
              <tr>
                {display.columns.map((column) => (
                  <th key={column} scope="col">
                    {column}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {display.rows.map((row, index) => (
                <tr key={index}>
                  {row.map((cell, column) => (
                    <td key={column}>
                      <Cell text={cell} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
          {display.more > 0 && <small>+ {display.more}</small>}
        </div>
      )
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

function Cell({ text }: { text: string }) {
  if (!/^https?:\/\//i.test(text)) return text
  return (
    <a href={text} target="_blank" rel="noopener noreferrer">
      {text}
    </a>
  )
}
