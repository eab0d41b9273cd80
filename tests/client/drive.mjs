// Drives the TypeScript client through one case of the contract and tells what came of it as one line of JSON.

import { ToolError, createClient } from "../../web/client/dist/index.js";

const { url, key, say, images, stop } = JSON.parse(process.argv[2]);
const seen = { executed: [], texts: [], finals: [], cited: [], failure: "" };

function ran(name, args) {
  seen.executed.push([name, args]);
}

const query = { type: "object", properties: { query: { type: "string" } }, required: ["query"] };
const code = { type: "object", properties: { code: { type: "string" } }, required: ["code"] };
const tools = {
  search_products: {
    description: "Find products.",
    parameters: query,
    run: (args) => {
      ran("search_products", args);
      return { products: [{ code: "M1" }] };
    },
  },
  add_to_cart: {
    description: "Put a product into the cart.",
    parameters: code,
    examples: ["Add milk"],
    sources: { code: "search_products" },
    run: async (args) => {
      ran("add_to_cart", args);
      return { ok: true };
    },
  },
  sold_out: {
    description: "Fails.",
    run: () => {
      ran("sold_out", {});
      throw new ToolError("sold out", "not_found", { code: "M1" });
    },
  },
  wordy: {
    description: "Fails with many words.",
    run: () => {
      ran("wordy", {});
      throw new ToolError("no ".repeat(10_000), "");
    },
  },
  for_ever: {
    description: "Does not end by itself.",
    run: () => {
      ran("for_ever", {});
      if (stop === "tool") setTimeout(() => client.stop());
      return new Promise(() => {});
    },
  },
};
const client = createClient({ url, key, tools, systemPrompt: "Be kind.", context: { page: "home" } });

try {
  for (const text of say) {
    let words = "";
    if (stop === "early") queueMicrotask(() => client.stop());
    for await (const event of client.send(text, { images })) {
      if (event.type === "text.delta") words += event.content;
      if (event.type === "text.delta" && stop === "text") await client.stop();
      if (event.type === "text.cited") seen.cited.push(...event.citations.map(({ start, end, url }) => [start, end, url]));
      if (event.type === "message") seen.finals.push([event.stopReason, event.message.content]);
    }
    seen.texts.push(words);
  }
} catch (error) {
  seen.failure = String(error.message);
}
console.log(JSON.stringify(seen));
process.exit(0);
