// The keys that do something here, shown with `?`.
import { Dialog } from "../components/Dialog"
import { useTranslate } from "../locales"
import { describeKeys, listCommands, type Keys } from "../state/commands"

export function Shortcuts({ onClose }: { onClose: () => void }) {
  const t = useTranslate()
  const writing: { label: string; keys: Keys }[] = [
    { label: t("chat.send"), keys: { key: "enter" } },
    { label: t("keys.newLine"), keys: { key: "enter", shift: true } },
    { label: t("chat.stop"), keys: { key: "escape" } },
  ]
  const rows = [...listCommands().flatMap(({ label, keys }) => (keys ? [{ label, keys }] : [])), ...writing]
  return (
    <Dialog title={t("keys.title")} onClose={onClose}>
      <dl className="shortcuts">
        {rows.map(({ label, keys }) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>
              {describeKeys(keys).map((name) => (
                <kbd key={name}>{name}</kbd>
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
