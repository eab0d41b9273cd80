import { useMemo } from "react"
import { useTranslate } from "../../locales"
import { CopyButton } from "../CopyButton"
import { toCsv } from "./tableText"

/** Copies a table as CSV, with its head as the first row. */
export function CsvButton({ rows }: { rows: string[][] }) {
  const t = useTranslate()
  const csv = useMemo(() => toCsv(rows), [rows])
  return <CopyButton text={csv} label={t("result.csv")} />
}
