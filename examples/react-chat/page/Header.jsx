import { startNewThread } from "./thread.js"

export function Header({ other, href }) {
  return (
    <header>
      <h1>Household</h1>
      <a href={href}>The same with {other}</a>
      <button onClick={startNewThread}>New chat</button>
    </header>
  )
}
