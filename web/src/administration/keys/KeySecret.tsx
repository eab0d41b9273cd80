import { useEffect } from "react"
import { CopyButton } from "../../components/CopyButton"
import { Dialog } from "../../components/Dialog"
import { useAdministrationText } from "../../locales/administration"
import { session } from "../../wire/http"
import type { NewKeyAnswer } from "../../wire/types"

/** Shows the secret of a key once. */
export function KeySecret({ answer, onClose }: { answer: NewKeyAnswer; onClose: () => void }) {
  const a = useAdministrationText()
  useEffect(() => {
    // A poll that is refused must not put the sign-in in the place of the secret.
    const { onUnauthorized } = session
    session.onUnauthorized = () => {}
    return () => {
      session.onUnauthorized = onUnauthorized
    }
  }, [])
  return (
    <Dialog title={answer.key.name} onClose={onClose} keepOpen>
      <p>{a("keys.secret", { name: answer.key.name })}</p>
      <div className="new-secret">
        <code>{answer.secret}</code>
        <CopyButton text={answer.secret} label={a("keys.copy")} />
      </div>
      <footer>
        <button className="primary" onClick={onClose}>
          {a("keys.kept")}
        </button>
      </footer>
    </Dialog>
  )
}
