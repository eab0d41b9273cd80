import { requestJson, session } from "../../wire/http"
import type { NewKeyAnswer } from "../../wire/types"

/** Make the key with which the page is to go on, or its new secret, and sign in with it.
 *
 * The page stays meanwhile: its polls may be refused in between, and the secret would be lost.
 */
export async function staySignedIn(change: () => Promise<NewKeyAnswer>): Promise<NewKeyAnswer> {
  const { onUnauthorized } = session
  session.onUnauthorized = () => {}
  try {
    const answer = await change()
    await requestJson("POST", "session", { key: answer.secret }).catch(() => {}) // the secret is shown in any case
    return answer
  } finally {
    session.onUnauthorized = onUnauthorized
  }
}
