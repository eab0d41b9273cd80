// The customer's cart and orders: they live in this browser and nowhere else, for all its tabs. Whoever listens hears of
// each change.

const listeners = new Set();
let lines = read("cart", []);
let orders = read("orders", []);

function read(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`grocer.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Another tab may have changed them. */
function refresh() {
  lines = read("cart", []);
  orders = read("orders", []);
}

window.addEventListener("storage", () => {
  refresh();
  for (const listener of listeners) listener();
});

function changed() {
  localStorage.setItem("grocer.cart", JSON.stringify(lines));
  localStorage.setItem("grocer.orders", JSON.stringify(orders));
  for (const listener of listeners) listener();
}

export const onChange = (listener) => listeners.add(listener);
export const placed = () => orders;
export const count = () => lines.reduce((sum, line) => sum + line.quantity, 0);
export const quantityOf = (code) => lines.find((line) => line.code === code)?.quantity ?? 0;

/** The cart as it is: its lines, and what they cost together. */
export function contents() {
  return { lines: lines.map((line) => ({ ...line })), total_cents: lines.reduce((sum, l) => sum + l.cents * l.quantity, 0) };
}

/** Put some of a product into the cart. Throws what the customer, or the assistant, should know. */
export function add(product, quantity = 1) {
  refresh();
  const wanted = quantityOf(product.code) + quantity;
  if (product.stock === 0) throw new Error(`${product.name} (${product.brand}) is sold out`);
  if (wanted > product.stock) throw new Error(`only ${product.stock} of ${product.name} are in stock`);
  setQuantity(product, wanted);
}

export function setQuantity(product, quantity) {
  refresh();
  const line = lines.find((one) => one.code === product.code);
  if (line) line.quantity = quantity;
  else {
    const { code, name, brand, category, size, cents, stock } = product;
    lines.push({ code, name, brand, category, size, cents, stock, quantity });
  }
  lines = lines.filter((one) => one.quantity > 0);
  changed();
}

/** Take a product out of the cart, some of it or all. */
export function remove(code, quantity) {
  refresh();
  const line = lines.find((one) => one.code === code);
  if (!line) throw new Error(`there is no product ${code} in the cart`);
  setQuantity(line, quantity === undefined ? 0 : Math.max(0, line.quantity - quantity));
}

/** The cart becomes an order. */
export function placeOrder(name) {
  refresh();
  const { lines: bought, total_cents } = contents();
  const order = { number: String(1001 + orders.length), at: new Date().toISOString(), name, lines: bought, total_cents };
  orders = [order, ...orders];
  lines = [];
  changed();
  return order;
}
