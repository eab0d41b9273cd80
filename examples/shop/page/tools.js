// What the assistant can do here: the tools run in this page, on its own cart and its own screens.

import * as cart from "./cart.js";
import { categories, price, product, search } from "./catalogue.js";
import { ToolError, tool } from "../client/index.js";

const text = (description, ...examples) => ({ type: "string", description, ...(examples.length ? { examples } : {}) });
const takes = (properties, ...required) => ({ type: "object", properties, required, additionalProperties: false });
const CODE = text("The product's code, as search_products tells it", "milk", "牛奶");
const QUANTITY = { type: "integer", minimum: 1, maximum: 99, default: 1 };

async function known(code) {
  const found = await product(code);
  if (!found) throw new ToolError(`there is no product ${code}`, "not_found", { hint: "use a code that search_products told" });
  return found;
}

const told = ({ code, name, brand, size, cents, stock }) => ({ code, name: `${name}, ${brand}, ${size}`, cents, stock });

const CALLS = "grocer.calls";
const calls = () => JSON.parse(localStorage.getItem(CALLS) ?? "[]");

/** A call runs once in this browser, also if the page is loaded anew before its result is told, or is there twice. */
const once = (run) => (args, { callId }) =>
  navigator.locks.request(callId, async () => {
    const known = calls().find(([id]) => id === callId);
    if (known) return known[1];
    const result = await run(args);
    // read again: another call may have ended meanwhile
    await navigator.locks.request(CALLS, () => localStorage.setItem(CALLS, JSON.stringify([...calls(), [callId, result]].slice(-100))));
    return result;
  });

function cartTools() {
  return {
    search_products: tool({
      description: "Find products by name, brand or kind. Best match first, with code, price in cents and stock.",
      readOnly: true,
      examples: ["Do you have {query}?", "Find {query}", "Search for {query}", "有没有{query}", "查找{query}"],
      parameters: takes({ query: text("Such as: milk", "oat milk", "牛奶"), limit: { type: "integer", minimum: 1, maximum: 20, default: 6 } }, "query"),
      run: async ({ query, limit = 6 }) => ({ products: (await search({ query, limit })).map(told) }),
    }),
    add_to_cart: tool({
      description: "Put a product into the cart.",
      examples: [
        "Add {code} to my cart",
        "Add {quantity} {code} to my cart",
        "Put {code} in my cart",
        "Put {quantity} {code} in my cart",
        "把{code}加到购物车",
        "把{code}加入购物车",
      ],
      sources: { code: "search_products" },
      parameters: takes({ code: CODE, quantity: QUANTITY }, "code"),
      run: once(async ({ code, quantity = 1 }) => {
        cart.add(await known(code), quantity);
        return { ok: true, in_cart: cart.quantityOf(code) };
      }),
    }),
    remove_from_cart: tool({
      description: "Take a product out of the cart: some of it, or all if no quantity is given.",
      examples: ["Remove {code}", "Remove {code} from my cart", "Take {code} out of my cart", "从购物车删除{code}"],
      sources: { code: "get_cart" },
      parameters: takes({ code: CODE, quantity: { type: "integer", minimum: 1 } }, "code"),
      run: once(({ code, quantity }) => {
        cart.remove(code, quantity);
        return { ok: true, in_cart: cart.quantityOf(code) };
      }),
    }),
    get_cart: tool({
      description: "What is in the cart, and what it costs, in cents.",
      readOnly: true,
      examples: ["What is in my cart?", "How much is my cart?", "购物车里有什么"],
      run: () => cart.contents(),
    }),
  };
}

function navigationTools(open) {
  // moving the page changes nothing that could not be moved back
  const page = (name, description, ...examples) => tool({ description, readOnly: true, examples, run: () => open(name) });
  return {
    open_home: page("home", "Move the page to the shop's front page.", "Go to the front page", "打开首页"),
    open_search: tool({
      description: "Move the page to the results of a search.",
      readOnly: true,
      examples: ["Open the results for {query}", "打开{query}的搜索结果"],
      parameters: takes({ query: text("What to search for", "bread", "面包") }, "query"),
      run: ({ query }) => open("search", query),
    }),
    open_category: tool({
      description: "Move the page to a category.",
      readOnly: true,
      examples: ["Open the category {category}", "Go to the category {category}", "打开{category}分类"],
      parameters: takes({ category: text("Its name, such as Dairy", "Dairy") }, "category"),
      run: async ({ category }) => {
        const all = await categories();
        const named = all.find((one) => one.toLowerCase() === category.toLowerCase());
        if (!named) throw new ToolError(`there is no category ${category}`, "not_found", { categories: all });
        return open("category", named);
      },
    }),
    open_product: tool({
      description: "Move the page to one product.",
      readOnly: true,
      examples: ["Open the product {code}", "打开商品{code}"],
      sources: { code: "search_products" },
      parameters: takes({ code: CODE }, "code"),
      run: async ({ code }) => open("product", (await known(code)).code),
    }),
    open_cart: page("cart", "Move the page to the cart.", "Open my cart", "Go to my cart", "打开购物车"),
    open_checkout: page(
      "checkout",
      "Move the page to the checkout. The customer places the order, nobody else.",
      "Check out",
      "Go to the checkout",
      "Take me to the checkout",
      "去结账",
    ),
    open_orders: page("orders", "Move the page to the orders of the customer.", "Show my orders", "我的订单"),
    open_account: page("account", "Move the page to the account of the customer.", "Open my account", "打开我的账户"),
  };
}

function displayTools(show) {
  return {
    show_products: tool({
      description: "Show products as cards in the chat, instead of listing them in words.",
      readOnly: true,
      examples: ["Show me {codes}", "给我看{codes}"],
      sources: { codes: "search_products" },
      parameters: takes({ codes: { type: "array", items: { type: "string" }, minItems: 1, maxItems: 12, examples: ["cheese", "奶酪"] } }, "codes"),
      run: async ({ codes }) => {
        const products = await Promise.all(codes.map(known));
        show.products(products);
        return products.length === 1 ? "This is the product." : `These are ${products.length} products.`;
      },
    }),
    show_cart: tool({
      description: "Show the cart as a card in the chat, instead of listing it in words.",
      readOnly: true,
      examples: ["Show my cart", "Show me my cart", "显示购物车"],
      run: () => {
        show.cart();
        return cart.count() ? `This is the cart: ${price(cart.contents().total_cents)} in all.` : "The cart is empty.";
      },
    }),
  };
}

/** All of them. `open(page, argument)` moves the page; `show` draws cards in the chat. */
export const shopTools = (open, show) => ({ ...cartTools(), ...navigationTools(open), ...displayTools(show) });
