// People and keys: who may sign in, as whom, with which rights and until when.
import { Plus } from "lucide-react"
import { useState } from "react"
import { navigate } from "../../app/route"
import { MissingOperator } from "../../components/MissingOperator"
import { useAdministrationText } from "../../locales/administration"
import { useMe } from "../../session/caller"
import { request } from "../../wire/http"
import type { KeyList, KeyView, NewKeyAnswer } from "../../wire/types"
import { useQuery } from "../../wire/useQuery"
import { RemoveDialog } from "../settings/RemoveDialog"
import { buildVersionHeaders } from "../settings/requests"
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
  const { keyless, key: ownKey } = useMe()
  const { data, problem, refetch } = useQuery<KeyList>("keys")
  const [opened, setOpened] = useState<Opened>(null)
  const [answer, setAnswer] = useState<NewKeyAnswer | null>(null)
  const openedKey = opened && (data?.keys.find(({ name }) => name === opened.key.name) ?? opened.key) // as it is now
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
    try {
      await request("DELETE", `keys/${encodeURIComponent(key.name)}`, undefined, { headers: buildVersionHeaders(key.version) })
    } finally {
      refetch() // also of what somebody else has changed meanwhile
    }
    close()
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
      {openedKey && opened?.action === "rotate" && <RotateKey keyView={openedKey} onRotated={show} onOutdated={refetch} onClose={close} />}
      {openedKey && opened?.action === "access" && <KeyAccess keyView={openedKey} onClose={close} />}
      {openedKey && opened?.action === "revoke" && (
        <RemoveDialog title={a("keys.revokeOf", { name: openedKey.name })} action={a("keys.revoke")} remove={() => revoke(openedKey)} onClose={close}>
          <p>{openedKey.conflict || a("keys.revokeAbout", { name: openedKey.name })}</p>
          {!openedKey.conflict && openedKey.name === ownKey && <p className="newer">{a("keys.revokeOwn")}</p>}
        </RemoveDialog>
      )}
      {answer && <KeySecret answer={answer} onClose={finish} />}
    </>
  )
}
