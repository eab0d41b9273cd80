// The assistant's panel: what is said, which tools run, and the cards that they draw.

import { createClient } from "../client/index.js";
import { cartCard, element, productCard } from "./parts.js";

const DOING = {
  search_products: ({ query }) => `Searching “${query}”`,
  add_to_cart: () => "Adding to the cart",
  remove_from_cart: () => "Taking out of the cart",
  get_cart: () => "Looking into the cart",
  show_products: () => "Showing products",
  show_cart: () => "Showing the cart",
};
const SUGGESTIONS = ["Add milk and bread to my cart", "Show me cheese", "Show me my cart", "Take me to checkout"];
const ENDED = { cancelled: "Stopped.", max_tool_turns: "That took too many steps.", failed: "The assistant could not answer." };

/** Begin the panel. `tools(show)` makes the page's tools, given what draws cards here; `context()` says where the customer is. */
export function startChat({ panel, tools, context }) {
  const log = panel.querySelector(".log");
  const form = panel.querySelector("form");
  const box = form.elements.text;
  const send = panel.querySelector("#chat-send");
  let running = false;

  const put = (piece) => {
    log.append(piece);
    log.scrollTop = log.scrollHeight;
    return piece;
  };
  const show = {
    products: (products) => put(element("div", { class: "cards" }, products.map(productCard))),
    cart: () => put(cartCard()),
  };
  const client = createClient({ url: new URL("assistant", document.baseURI).href, tools: tools(show), context });

  async function say(text) {
    log.querySelector(".suggestions")?.remove();
    put(element("p", { class: "said mine" }, text));
    running = true;
    send.textContent = "Stop";
    try {
      await answered(client.send(text));
    } catch (error) {
      put(element("p", { class: "said problem" }, error.message));
    } finally {
      running = false;
      send.textContent = "Send";
    }
  }

  async function answered(events) {
    let bubble;
    const steps = new Map();
    for await (const event of events) {
      if (event.type === "text.delta") {
        bubble ??= put(element("p", { class: "said" }));
        bubble.textContent += event.content;
        log.scrollTop = log.scrollHeight;
      } else if (event.type === "turn.restarted") {
        bubble?.replaceChildren();
      } else if (event.type === "tool.status") {
        bubble = undefined;
        step(steps, event);
      } else if (event.type === "message" && event.stopReason !== "done") {
        put(element("p", { class: "said problem" }, `${ENDED[event.stopReason] ?? "It ended early."} ${event.detail ?? ""}`.trim()));
      }
    }
  }

  function step(steps, { state, call_id, name, ok, error, arguments: given = {} }) {
    const words = DOING[name]?.(given) ?? `Opening ${name.replace(/^open_/, "")}`;
    if (state === "started") steps.set(call_id, put(element("p", { class: "step" }, words)));
    else steps.get(call_id)?.classList.add(ok ? "well" : "badly");
    if (state === "finished" && !ok) steps.get(call_id)?.append(`: ${error}`);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (running) return void client.stop();
    const text = box.value.trim();
    box.value = "";
    if (text) say(text);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!running) form.requestSubmit();
  });
  const fold = panel.querySelector("#chat-fold");
  fold.addEventListener("click", () => {
    const open = panel.classList.toggle("folded") === false;
    fold.setAttribute("aria-expanded", open);
    fold.textContent = open ? "–" : "+";
  });
  put(element("p", { class: "said" }, "Hello! I can fill your cart and find my way around this shop. What do you need?"));
  put(element("div", { class: "suggestions" }, SUGGESTIONS.map((text) => element("button", { type: "button", onclick: () => say(text) }, text))));
}
