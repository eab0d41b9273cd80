// What a call came to, drawn as what it is: a picture, a table, links, a text, or else JSON.
import { useMemo } from "react"
import { Json } from "../components/JsonView"
import type { Result } from "../wire/types"
import { drawingOf, withParts, type Drawing } from "./resultDisplay"

export function ResultView({ result, brief = false }: { result: Result; brief?: boolean }) {
  const drawing = useMemo(() => withParts(drawingOf(result.content), result.parts ?? []), [result])
  if (brief && !isPicture(drawing)) return null
  return <Drawn drawing={brief ? picturesOf(drawing) : drawing} />
}

/** Pictures are shown without opening the card: they are what was asked for. */
export function shownAtOnce(result: Result): boolean {
  return Boolean(result.parts?.length) || result.content.includes("data:image/") || result.content.includes('"image"')
}

function picturesOf(drawing: Drawing): Drawing {
  return drawing.kind === "several" ? { kind: "several", parts: drawing.parts.filter(isPicture) } : drawing
}

function isPicture(drawing: Drawing): boolean {
  return drawing.kind === "image" || (drawing.kind === "several" && drawing.parts.some(isPicture))
}

export function Drawn({ drawing }: { drawing: Drawing }) {
  switch (drawing.kind) {
    case "image":
      return <img className="result-image" src={drawing.url} alt={drawing.about} />
    case "table":
      return (
        <div className="result-table" tabIndex={0}>
          <table>
            <thead>
              <tr>
                {drawing.columns.map((column) => (
                  <th key={column} scope="col">
                    {column}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {drawing.rows.map((row, index) => (
                <tr key={index}>
                  {row.map((cell, at) => (
                    <td key={at}>
                      <Cell text={cell} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
          {drawing.more > 0 && <small>+ {drawing.more}</small>}
        </div>
      )
    case "links":
      return (
        <ul className="result-links">
          {drawing.links.map((link) => (
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
      return <p className="result-text">{drawing.text}</p>
    case "several":
      return (
        <>
          {drawing.parts.map((part, index) => (
            <Drawn key={index} drawing={part} />
          ))}
        </>
      )
    case "json":
      return <Json value={drawing.value} />
    default:
      return drawing satisfies never
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
