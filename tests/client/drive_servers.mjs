// Drives the TypeScript client with tools on MCP servers: of this process, and of a child.

import { createClient } from "../../web/client/dist/index.js";

const [url, modules, child] = process.argv.slice(2);
const sdk = (path) => import(`${modules}/@modelcontextprotocol/sdk/dist/esm/${path}.js`);
const { Client } = await sdk("client/index");
const { StdioClientTransport } = await sdk("client/stdio");
const { InMemoryTransport } = await sdk("inMemory");
const { Server } = await sdk("server/index");
const { CallToolRequestSchema, ListToolsRequestSchema } = await sdk("types");

const ANY = { type: "object", properties: {} };
const OWN = {
  search_products: () => ({ content: [{ type: "text", text: "milk 1 L" }] }),
  get_cart: () => ({ content: [{ type: "text", text: '{"things": 2}' }], structuredContent: { things: 2 } }),
  sold_out: () => ({ isError: true, content: [{ type: "text", text: "sold out" }], structuredContent: { error_type: "not_found" } }),
  whose: ({ _meta }) => ({ content: [{ type: "text", text: `of ${_meta["toolyard/division"]}` }] }),
  "show product!": () => ({ content: [{ type: "image", data: "AAAA", mimeType: "image/png" }] }),
};

async function connected(transport) {
  const client = new Client({ name: "app", version: "1" });
  await client.connect(transport);
  return client;
}

async function inside() {
  const server = new Server({ name: "shop", version: "1" }, { capabilities: { tools: {} } });
  const names = Object.keys(OWN);
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) =>
    params?.cursor
      ? { tools: names.slice(2).map((name) => ({ name, inputSchema: ANY })) }
      : { tools: names.slice(0, 2).map((name) => ({ name, inputSchema: ANY })), nextCursor: "2" },
  );
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => OWN[params.name](params));
  const [near, far] = InMemoryTransport.createLinkedPair();
  await server.connect(far);
  return connected(near);
}

const command = JSON.parse(child);
const servers = { shop: await inside(), screens: await connected(new StdioClientTransport({ ...command, stderr: "inherit" })) };
const tools = { get_cart: { description: "The app's own.", run: () => "the app's own" } };
const client = createClient({ url, tools, servers, context: { division: "clothing" } });
console.log(await client.ask("go"));
process.exit(0);
