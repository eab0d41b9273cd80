// Drives the TypeScript client through one case of the contract and tells what came of it as one line of JSON.

import { ToolError, createClient } from "../../web/client/dist/index.js";

const { url, key, say, images, conversation, stop } = JSON.parse(process.argv[2]);
const seen = { executed: [], texts: [], finals: [], cited: [], errors: [], failure: "" };

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
    propose: ["We need milk"],
    sources: { code: "search_products" },
    run: async (args) => {
      ran("add_to_cart", args);
      return { ok: true };
    },
  },
  whose: {
    description: "Which division it is for.",
    run: (_, { division }) => {
      ran("whose", { division });
      return division;
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
  huge: {
    description: "Tells very much.",
    run: () => {
      ran("huge", {});
      return "m".repeat(20_000_000);
    },
  },
  large: {
    description: "Tells much.",
    run: () => {
      ran("large", {});
      return "m".repeat(3_000_000);
    },
  },
  too_slow: {
    description: "Does not end in time.",
    timeoutSeconds: 0.2,
    run: () => {
      ran("too_slow", {});
      return new Promise(() => {});
    },
  },
  odd: {
    description: "Fails with what nobody can write.",
    run: () => {
      ran("odd", {});
      throw new ToolError("odd", "odd", { things: [1n], many: "m".repeat(20_000_000) });
    },
  },
  deep: {
    description: "Tells what nobody reads.",
    run: () => {
      ran("deep", {});
      let told = [];
      for (let level = 0; level < 2000; level += 1) told = [told];
      return told;
    },
  },
  half_character: {
    description: "Tells half a character.",
    run: () => {
      ran("half_character", {});
      return { told: "cat \u{1F408}".slice(0, 5) };
    },
  },
  raw_mcp_result: {
    description: "Return what an MCP server answered.",
    parameters: { type: "object", properties: { failed: { type: "boolean" } } },
    run: ({ failed = false }) => ({
      content: failed
        ? [{ type: "text", text: "sold out" }]
        : [{ type: "text", text: "3 in stock" }, { type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" }],
      isError: failed,
    }),
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
const client = createClient({ url, key, tools, systemPrompt: "Be kind.", context: { page: "home" }, conversationId: conversation });

try {
  for (const text of say) {
    let words = "";
    if (stop === "early") queueMicrotask(() => client.stop());
    for await (const event of client.send(text, { images })) {
      if (event.type === "text.delta") words += event.content;
      if (event.type === "text.delta" && stop === "text") await client.stop();
      if (event.type === "text.cited") seen.cited.push(...event.citations.map(({ start, end, url }) => [start, end, url]));
      if (event.type === "message") seen.finals.push([event.stopReason, event.message.content]);
      if (event.type === "message" && event.error) seen.errors.push([event.error.error, event.error.error_type]);
    }
    seen.texts.push(words);
  }
} catch (error) {
  seen.failure = String(error.message);
}
console.log(JSON.stringify(seen));
process.exit(0);
