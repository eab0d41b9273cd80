// Tables as text. Pure.

/** A number as tables write it: with a sign, separators, a currency or a unit such as % in front or behind. */
const NUMBER = /^[\s€$£¥]*[-+−]?\d[\d.,'\u00a0\u202f ]*\s*(?:%|‰|[€$£¥]|[a-zµ]{1,3})?$/iu

/** Return for each column whether all its filled cells are numbers, so that it is aligned to the right. */
export function findNumberColumns(rows: string[][]): boolean[] {
  const width = Math.max(0, ...rows.map((row) => row.length))
  return Array.from({ length: width }, (_, column) => {
    const filled = rows.map((row) => (row[column] ?? "").trim()).filter((cell) => cell && cell !== "–" && cell !== "-")
    return filled.length > 0 && filled.every((cell) => NUMBER.test(cell))
  })
}

/** Return the rows as CSV (RFC 4180). A cell that a spreadsheet would run as a formula is made a text. */
export function toCsv(rows: string[][]): string {
  return rows.map((row) => row.map(toCsvCell).join(",")).join("\r\n")
}

function toCsvCell(cell: string): string {
  const isFormula = /^[=@\t\r]/.test(cell) || (/^[+-]/.test(cell) && !NUMBER.test(cell))
  const text = isFormula ? `'${cell}` : cell
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
