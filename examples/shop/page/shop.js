// The page: which of its screens is shown, and the assistant beside it.

import * as cart from "./cart.js";
import { categories } from "./catalogue.js";
import { startChat } from "./chat.js";
import { PAGES, nothing } from "./pages.js";
import { label, link } from "./parts.js";
import { shopTools } from "./tools.js";

const page = document.getElementById("page");
const STILL = new Set(["home", "search", "category", "product"]);
let shown = 0;

function place() {
  const [, name = "home", argument = ""] = location.hash.split("/");
  return { name: Object.hasOwn(PAGES, name) ? name : "home", argument: decoded(argument) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // an address that somebody typed
  }
}

async function show() {
  const { name, argument } = place();
  const number = ++shown;
  const content = await contentOf(name, argument);
  if (number !== shown) return; // another page was opened meanwhile
  page.replaceChildren(...content);
  page.dataset.page = name;
  for (const one of document.querySelectorAll("#categories a")) {
    one.classList.toggle("here", name === "category" && one.textContent === argument);
  }
}

async function contentOf(name, argument) {
  try {
    return await PAGES[name](argument);
  } catch {
    return [nothing("The shop cannot be reached. Try again in a moment.")];
  }
}

/** Move to a page, as a click would, and say where the customer is then. */
async function open(name, argument = "") {
  const hash = argument ? `#/${name}/${encodeURIComponent(argument)}` : `#/${name}`;
  if (location.hash !== hash) history.pushState(null, "", hash);
  await show();
  window.scrollTo({ top: 0 });
  return { page: name, ...(argument ? { argument } : {}) };
}

function count() {
  document.getElementById("cart-count").textContent = cart.count();
  for (const add of document.querySelectorAll("button.add")) label(add);
}

window.addEventListener("popstate", show);
window.addEventListener("hashchange", show);
document.getElementById("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = new FormData(event.target).get("q").trim();
  if (query) open("search", query);
});
cart.onChange(() => {
  count();
  if (!STILL.has(place().name)) show();
});
count();
startChat({
  panel: document.getElementById("chat"),
  tools: (drawn) => shopTools(open, drawn),
  context: () => ({ page: place(), cart: { things: cart.count(), total_cents: cart.contents().total_cents } }),
});
document.getElementById("categories").append(...(await categories()).map((name) => link(`#/category/${encodeURIComponent(name)}`, name)));
await show();
