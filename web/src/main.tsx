import { createRoot } from "react-dom/client"
import { App } from "./app/App"
import { restoreRoute } from "./session/providerSignIn"
import { passOnSignIn } from "./session/serverSignIn"
import "./style/base.css"
import "./style/shell.css"
import "./style/chat.css"
import "./style/calls.css"
import "./style/pages.css"
import "./style/sharing.css"
import "./style/attachments.css"

sessionStorage.removeItem("toolyard.key") // where earlier versions kept the key
if (passOnSignIn()) window.close() // the tab in which the sign-in began goes on
restoreRoute()
createRoot(document.getElementById("page")!).render(<App />)
