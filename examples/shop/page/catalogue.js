// The shop's products, asked from its own server. It knows no page.

const known = new Map();

async function asked(path) {
  const answer = await fetch(`api/${path}`);
  if (answer.status === 404) return undefined;
  if (!answer.ok) throw new Error(`the catalogue answered ${answer.status}`);
  return answer.json();
}

export async function search({ query = "", category = "", limit = 24 } = {}) {
  const found = await asked(`products?${new URLSearchParams({ q: query, category, limit })}`);
  for (const product of found) known.set(product.code, product);
  return found;
}

/** One product, or undefined if there is none of that code. */
export async function product(code) {
  if (!known.has(code)) known.set(code, await asked(`products/${encodeURIComponent(code)}`));
  return known.get(code);
}

export const categories = () => asked("categories");

export const price = (cents) => `€${(cents / 100).toFixed(2)}`;
