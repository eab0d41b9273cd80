// People and keys: who may sign in, as whom, with which rights and until when.
import { Plus } from "lucide-react"
import { useState } from "react"
import { navigate } from "../../app/route"
import { MissingOperator } from "../../components/MissingOperator"
import { useAdministrationText } from "../../locales/administration"
import { useMe } from "../../session/caller"
import { requestJson } from "../../wire/http"
import type { KeyList, KeyView, NewKeyAnswer } from "../../wire/types"
import { useQuery } from "../../wire/useQuery"
import { RemoveDialog } from "../settings/RemoveDialog"
import { KeyAccess } from "./KeyAccess"
import { KeyCard } from "./KeyCard"
import { KeySecret } from "./KeySecret"
import { NewKey } from "./NewKey"
import { People } from "./People"
import { RotateKey } from "./RotateKey"

type Opened = { action: "rotate" | "revoke" | "access"; key: KeyView } | null

/** `adding` shows the form for a new key. */
export function Keys({ adding }: { adding: boolean }) {
  const a = useAdministrationText()
  const { keyless } = useMe()
  const { data, problem, refetch } = useQuery<KeyList>("keys")
  const [opened, setOpened] = useState<Opened>(null)
  const [answer, setAnswer] = useState<NewKeyAnswer | null>(null)
  const close = () => {
    setOpened(null)
    if (adding) navigate("administration", "keys")
  }
  const show = (created: NewKeyAnswer) => {
    close()
    setAnswer(created)
    refetch()
  }
  const finish = () => {
    setAnswer(null)
    // The page was nobody's until the first key. What it keeps has to be loaded for the one who is signed in now.
    if (keyless) location.reload()
  }
  const revoke = async (key: KeyView) => {
    await requestJson("DELETE", `keys/${encodeURIComponent(key.name)}`)
    close()
    refetch()
  }
  return (
    <>
      <header className="section-head">
        <p className="about">{a("keys.about")}</p>
        <button className="primary" onClick={() => navigate("administration", "keys/add")}>
          <Plus aria-hidden /> {a("keys.add")}
        </button>
      </header>
      <MissingOperator />
      {problem && !data && <p className="problem">{problem}</p>}
      {data?.count === 0 && <p className="empty">{a("keys.none")}</p>}
      <ul className="cards">
        {data?.keys.map((key) => (
          <KeyCard key={key.name} keyView={key} onAction={(action) => setOpened({ action, key })} />
        ))}
      </ul>
      {!keyless && <People />}
      {adding && <NewKey onCreated={show} onClose={close} />}
      {opened?.action === "rotate" && <RotateKey keyView={opened.key} onRotated={show} onClose={close} />}
      {opened?.action === "access" && <KeyAccess keyView={opened.key} onClose={close} />}
      {opened?.action === "revoke" && (
        <RemoveDialog title={a("keys.revokeOf", { name: opened.key.name })} action={a("keys.revoke")} remove={() => revoke(opened.key)} onClose={close}>
          <p>{a("keys.revokeAbout", { name: opened.key.name })}</p>
        </RemoveDialog>
      )}
      {answer && <KeySecret answer={answer} onClose={finish} />}
    </>
  )
}
