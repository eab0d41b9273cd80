// The assistant's panel: what is said, which tools run, and the cards that they draw.

import { createClient } from "../client/index.js";
import { product } from "./catalogue.js";
import { cartCard, element, productCard } from "./parts.js";

/** Where a tab keeps which conversation it is in. */
const KEPT = "grocer.conversation";

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
  const url = new URL("assistant", document.baseURI).href;
  const begun = (conversationId) => createClient({ url, tools: tools(show), context, conversationId });
  let client = begun(sessionStorage.getItem(KEPT) ?? "");

  async function say(text) {
    log.querySelector(".suggestions")?.remove();
    put(element("p", { class: "said mine" }, text));
    await run(async () => {
      try {
        await answered(client.send(text));
      } catch (error) {
        if (error.status !== 404) throw error;
        client = begun(""); // the server does not know this conversation any more
        await answered(client.send(text));
      }
    });
  }

  async function run(work) {
    running = true;
    send.textContent = "Stop";
    try {
      await work();
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
      sessionStorage.setItem(KEPT, client.conversationId);
      if (event.type === "text.delta") {
        bubble ??= put(element("p", { class: "said" }));
        bubble.textContent += event.content;
        log.scrollTop = log.scrollHeight;
      } else if (event.type === "turn.restarted") {
        bubble?.replaceChildren();
      } else if (event.type === "tool.status") {
        bubble = undefined;
        step(steps, event);
      } else if (event.type === "message") {
        const { content } = event.message;
        if (content) (bubble ??= put(element("p", { class: "said" }))).textContent = content;
        if (event.stopReason !== "done") put(element("p", { class: "said problem" }, ENDED[event.stopReason] ?? "It ended early."));
      }
    }
  }

  /** What was said before this page was loaded anew; what was under way then goes on. */
  async function takeUp() {
    const answer = await fetch(`${url}/conversations/${client.conversationId}/messages`);
    if (!answer.ok) return void (client = begun("")); // the server does not know it any more
    const { messages } = await answer.json();
    const ran = new Set(messages.map((one) => one.tool_call_id));
    for (const { role, content, tool_calls } of messages) {
      if (content && role !== "tool") put(element("p", { class: role === "user" ? "said mine" : "said" }, content));
      for (const call of tool_calls ?? []) if (ran.has(call.id)) await redraw(call.function);
    }
    const last = messages.at(-1);
    if (last?.role !== "assistant" || last.tool_calls?.length) await answered(client.follow());
  }

  async function redraw({ name, arguments: given }) {
    if (name === "show_products") show.products((await Promise.all(JSON.parse(given).codes.map(product))).filter(Boolean));
  }

  function step(steps, { state, call_id, name, ok, error, arguments: given = {} }) {
    const words = DOING[name]?.(given) ?? `Opening ${name.replace(/^open_/, "")}`;
    if (state === "started") steps.set(call_id, put(element("p", { class: "step" }, words)));
    else steps.get(call_id)?.classList.add(ok ? "well" : "badly");
    if (state === "finished" && !ok) steps.get(call_id)?.append(`: ${error}`);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (running) return void client.stop().catch((error) => put(element("p", { class: "said problem" }, error.message)));
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
  if (client.conversationId) return void run(takeUp);
  put(element("div", { class: "suggestions" }, SUGGESTIONS.map((text) => element("button", { type: "button", onclick: () => say(text) }, text))));
}
