// Pieces that pages and the chat both show: an element, a product's card, the cart as a card.

import * as cart from "./cart.js";
import { price } from "./catalogue.js";
import { picture } from "./pictures.js";

/** An element with attributes, listeners (`onclick`) and children; texts are texts, never HTML. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== undefined));
  return made;
}

export const link = (href, text, kind) => element("a", { href, class: kind }, text);

/** Who made it and how much of it; a number stays with its unit. */
const maker = ({ brand, size }) => `${brand} · ${size.replace(" ", "\u00a0")}`;

/** What the button of a card says: how many are in the cart, or that there are no more. */
export function label(add) {
  const { code, name, stock } = add.dataset;
  const inCart = cart.quantityOf(code);
  add.disabled = inCart >= stock;
  add.textContent = stock === "0" ? "Sold out" : add.disabled ? "No more" : inCart ? `Add · ${inCart}` : "Add";
  add.title = add.disabled && inCart ? `all ${inCart} that are in stock are in your cart` : "";
  add.setAttribute("aria-label", `${add.textContent}: ${name}`);
}

export function productCard(product) {
  const { code, name, stock } = product;
  const onclick = () => {
    try {
      cart.add(product);
    } catch {
      label(add); // another tab took the last one
    }
  };
  const add = element("button", { type: "button", class: "add", "data-code": code, "data-name": name, "data-stock": stock, onclick });
  label(add);
  return element(
    "article",
    { class: "card", "data-code": product.code },
    element("a", { href: `#/product/${product.code}`, "aria-label": product.name }, picture(product.category)),
    element(
      "div",
      { class: "about" },
      link(`#/product/${product.code}`, product.name, "name"),
      element("p", { class: "quiet" }, maker(product)),
      element("div", { class: "row" }, element("strong", {}, price(product.cents)), add),
    ),
  );
}

export function cartLines(small = false) {
  const { lines } = cart.contents();
  return lines.map((line) =>
    element(
      "li",
      { class: "line", "data-code": line.code },
      picture(line.category),
      element("div", { class: "about" }, link(`#/product/${line.code}`, line.name, "name"),
        element("p", { class: "quiet" }, maker(line))),
      small ? element("span", { class: "quantity" }, `× ${line.quantity}`) : stepper(line),
      element("strong", {}, price(line.cents * line.quantity)),
    ),
  );
}

function stepper(line) {
  const step = (by, text, label, more = {}) =>
    element("button", { type: "button", "aria-label": `${label} ${line.name}`, onclick: () => cart.setQuantity(line, line.quantity + by), ...more }, text);
  const last = line.quantity >= line.stock ? { disabled: "", title: `only ${line.stock} are in stock` } : {};
  return element("span", { class: "stepper" }, step(-1, "−", "Less"), element("span", {}, String(line.quantity)), step(1, "+", "More", last));
}

export function total() {
  return element("p", { class: "total" }, element("span", {}, "Total"), element("strong", {}, price(cart.contents().total_cents)));
}

/** The cart as the chat shows it. It stays as it was then. */
export function cartCard() {
  if (!cart.count()) return element("div", { class: "cart-card" }, element("p", { class: "quiet" }, "The cart is empty."));
  return element("div", { class: "cart-card" }, element("ul", { class: "lines" }, cartLines(true)), total(),
    link("#/checkout", "Checkout", "button"));
}
