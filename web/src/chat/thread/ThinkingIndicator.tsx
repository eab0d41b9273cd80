import { useTranslate } from "../../locales"

/** Three dots, shown while a run has produced nothing yet. */
export function ThinkingIndicator() {
  const t = useTranslate()
  return (
    <p className="thinking">
      <span aria-hidden />
      <span aria-hidden />
      <span aria-hidden />
      <span className="visually-hidden">{t("chat.thinking")}</span>
    </p>
  )
}
