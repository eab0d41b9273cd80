// The eight pages of the shop. Each is made anew when it is opened, and when the cart changes under it.

import * as cart from "./cart.js";
import { categories, price, product, search } from "./catalogue.js";
import { cartLines, element, link, productCard, total } from "./parts.js";
import { picture } from "./pictures.js";

const heading = (text, more) => element("div", { class: "heading" }, element("h1", {}, text), more);
const grid = (products) => element("div", { class: "grid" }, products.map(productCard));
export const nothing = (text) => element("div", { class: "nothing" }, element("p", {}, text), link("#/home", "Back to the shop", "button"));

/** The first of each kind. */
function varied(products, most) {
  const first = new Map();
  for (const one of products) if (!first.has(one.name)) first.set(one.name, one);
  return [...first.values()].slice(0, most);
}

async function home() {
  const shelf = async (name) => [name, varied(await search({ category: name, limit: 40 }), 5)];
  const shelves = await Promise.all((await categories()).map(shelf));
  const hero = element("section", { class: "hero" },
    element("div", {}, element("h1", {}, "Groceries, round the corner"),
      element("p", {}, "Fill your cart yourself, or tell the assistant what you need: it uses this very page.")),
    element("p", { class: "hint" }, "Try “Add milk and bread to my cart”"));
  return [hero, ...shelves.map(([name, products]) => element("section", {},
    element("div", { class: "heading" }, element("h2", {}, name), link(`#/category/${encodeURIComponent(name)}`, "See all", "more")), grid(products)))];
}

async function found(query) {
  const products = await search({ query, limit: 60 });
  if (!products.length) return [heading(`Nothing for “${query}”`), nothing("Another word may help.")];
  return [heading(`“${query}”`, element("p", { class: "quiet" }, `${products.length} products`)), grid(products)];
}

async function category(name) {
  const products = await search({ category: name, limit: 100 });
  if (!products.length) return [nothing(`There is no category “${name}”.`)];
  return [heading(products[0].category, element("p", { class: "quiet" }, `${products.length} products`)), grid(products)];
}

async function one(code) {
  const found = await product(code);
  if (!found) return [nothing(`There is no product ${code}.`)];
  const stock = found.stock === 0 ? "Sold out" : found.stock < 10 ? `Only ${found.stock} left` : "In stock";
  const add = element("button", { type: "button", class: "button", disabled: found.stock === 0 ? "" : undefined }, "Add to cart");
  const said = element("p", { class: "quiet", role: "status" });
  add.addEventListener("click", () => {
    try {
      cart.add(found);
      said.textContent = `${cart.quantityOf(code)} in your cart`;
    } catch (error) {
      said.textContent = error.message;
    }
  });
  const others = await search({ category: found.category, limit: 60 });
  const alike = varied(others.filter((other) => other.name !== found.name), 5);
  return [
    element("section", { class: "product" }, picture(found.category),
      element("div", {}, link(`#/category/${encodeURIComponent(found.category)}`, found.category, "more"), element("h1", {}, found.name),
        element("p", { class: "quiet" }, `${found.brand} · ${found.size} · ${found.code}`), element("p", {}, found.description),
        element("p", { class: "price" }, price(found.cents)), element("p", { class: "stock" }, stock), add, said)),
    element("h2", {}, "Goes well with it"), grid(alike),
  ];
}

function shoppingCart() {
  if (!cart.count()) return [heading("Your cart"), nothing("It is empty.")];
  return [heading("Your cart"), element("div", { class: "sheet" }, element("ul", { class: "lines" }, cartLines()), total(),
    link("#/checkout", "Go to checkout", "button"))];
}

function checkout() {
  if (!cart.count()) return [heading("Checkout"), nothing("There is nothing to pay for yet.")];
  const form = element("form", { class: "sheet", onsubmit: (event) => {
    event.preventDefault();
    cart.placeOrder(new FormData(form).get("name"));
    location.hash = "#/orders";
  } },
    element("ul", { class: "lines" }, cartLines(true)), total(),
    element("label", {}, "Name", element("input", { name: "name", required: "", autocomplete: "name" })),
    element("label", {}, "Address", element("input", { name: "address", required: "", autocomplete: "street-address" })),
    element("p", { class: "quiet" }, "Pay at the door, in cash or by card. This is a demo: nothing is delivered."),
    element("button", { class: "button", type: "submit" }, "Place order"));
  return [heading("Checkout"), form];
}

function orders() {
  const placed = cart.placed();
  if (!placed.length) return [heading("Your orders"), nothing("You have not ordered anything yet.")];
  return [heading("Your orders"), ...placed.map((order) => element("div", { class: "sheet" },
    element("div", { class: "heading" }, element("h2", {}, `Order ${order.number}`), element("p", { class: "quiet" }, new Date(order.at).toLocaleString())),
    element("p", {}, order.lines.map((line) => `${line.quantity} × ${line.name}`).join(", ")),
    element("p", { class: "total" }, element("span", {}, "Total"), element("strong", {}, price(order.total_cents)))))];
}

function account() {
  return [heading("Your account"), element("div", { class: "sheet" },
    element("p", {}, `${cart.placed().length} orders, ${cart.count()} things in the cart.`),
    element("p", { class: "quiet" }, "Cart and orders live in this browser, nowhere else."),
    element("button", { type: "button", class: "button plain", onclick: () => { localStorage.clear(); location.reload(); } }, "Forget everything"))];
}

export const PAGES = { home, search: found, category, product: one, cart: shoppingCart, checkout, orders, account };
