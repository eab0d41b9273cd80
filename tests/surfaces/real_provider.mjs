// A real identity provider on a free port of this machine: `oidc-provider` with its own pages for signing in and for
// consent. It prints its address. Arguments: the folder of the package, and whether ID tokens carry the groups.
import { createServer } from "node:http"
import { pathToFileURL } from "node:url"

const [folder, groupsInToken] = process.argv.slice(2)
const { Provider } = await import(pathToFileURL(`${folder}/lib/index.js`))
const GROUPS = { ann: ["ops"], bob: ["cellar"], eve: [] }
const client = {
  client_id: "toolyard",
  client_secret: "a secret of the client: with / and +",
  // A native client may come back to any port of the loopback.
  application_type: "native",
  redirect_uris: ["http://127.0.0.1/session/oidc/callback"],
  token_endpoint_auth_method: "client_secret_basic",
}
const clients = [
  client,
  { ...client, client_id: "other" },
  { ...client, client_id: "public", client_secret: undefined, token_endpoint_auth_method: "none" },
]
const server = createServer()
server.listen(0, "127.0.0.1", () => {
  // Another site than 127.0.0.1 to a browser, as a provider is: cookies are sent from one to the other accordingly.
  const issuer = `http://localhost:${server.address().port}`
  const provider = new Provider(issuer, {
    clients,
    claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
    conformIdTokenClaims: groupsInToken !== "yes",
    cookies: { keys: ["a key for the cookies of tests"] },
    clientAuthMethods: ["client_secret_basic", "none"],
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, groups: GROUPS[id] ?? [] }),
    }),
    pkce: { required: () => true },
  })
  // Its pages load a font from elsewhere, which a test must not wait for.
  provider.use(async (context, next) => {
    await next()
    if (typeof context.body === "string") context.body = context.body.replace(/@import url\([^)]*\);?/g, "")
  })
  server.on("request", provider.callback())
  console.log(issuer)
})
process.stdin.on("end", () => process.exit()).resume()
