// The tools that run in this page: what each is, and what it does to the board.

const cards = JSON.parse(sessionStorage.getItem("cards") ?? "[]")

export function drawBoard() {
  sessionStorage.setItem("cards", JSON.stringify(cards))
  document.querySelector("#board").replaceChildren(...cards.map(title => {
    const card = document.createElement("li")
    card.textContent = title
    return card
  }))
}

const actions = {
  add_card({ title }) {
    cards.push(title)
    drawBoard()
    return { cards: cards.length }
  },
}

export const tools = [
  {
    name: "add_card",
    description: "Add a card to the board that the user sees.",
    parameters: {
      type: "object",
      properties: { title: { type: "string", description: "What the card says" } },
      required: ["title"],
    },
    metadata: { toolyard: { examples: ["add a card {title}"] } },
  },
]

export const getState = () => ({ cards })

// Returns the message that answers a call.
export function runTool(call) {
  const answer = { id: crypto.randomUUID(), role: "tool", toolCallId: call.id }
  try {
    const result = actions[call.function.name](JSON.parse(call.function.arguments))
    return { ...answer, content: JSON.stringify(result) }
  } catch (error) {
    return { ...answer, content: "", error: String(error) }
  }
}
