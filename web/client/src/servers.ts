// The MCP servers of an application, behind one router of names. It brings no MCP client along: the application's own
// is used, over whichever transport it was connected.

import { AWAITED_S, type Tool, ToolError } from "./tools.js";

const LIST_MS = 30_000;
const MOST_PAGES = 200;
const LONGEST = 64;

type Some = Record<string, unknown>;

/** What is needed of an MCP client. `Client` of `@modelcontextprotocol/sdk` is one, once it is connected. */
export interface McpClient {
  listTools(params?: { cursor?: string }, options?: { timeout?: number }): Promise<{ tools: McpTool[]; nextCursor?: string | undefined }>;
  callTool(
    params: { name: string; arguments?: Some; _meta?: Some },
    schema?: undefined,
    options?: { signal?: AbortSignal; timeout?: number },
  ): Promise<unknown>;
}

export interface McpTool {
  name: string;
  title?: string | undefined;
  description?: string | undefined;
  inputSchema: object;
}

/** The tools of all these servers. One whose name is taken has its server's before it. */
export async function routed(servers: Readonly<Record<string, McpClient>>, taken: readonly string[]): Promise<Record<string, Tool>> {
  const names = Object.keys(servers);
  const listings = await Promise.all(Object.entries(servers).map(([name, client]) => listed(name, client)));
  const tools: Record<string, Tool> = {};
  names.forEach((server, place) => {
    const client = servers[server];
    for (const remote of client ? (listings[place] ?? []) : []) {
      const name = free(server, remote.name, (one) => Object.hasOwn(tools, one) || taken.includes(one));
      if (client) tools[name] = made(client, remote);
    }
  });
  return tools;
}

async function listed(server: string, client: McpClient): Promise<McpTool[]> {
  const found: McpTool[] = [];
  let cursor: string | undefined;
  try {
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const listing = await client.listTools(cursor ? { cursor } : {}, { timeout: LIST_MS });
      found.push(...listing.tools);
      cursor = listing.nextCursor;
      if (!cursor) break;
    }
  } catch (error) {
    throw new Error(`the tools of server ${server} could not be listed: ${error instanceof Error ? error.message : String(error)}`);
  }
  return found;
}

/** A name of the letters and the length that every provider takes, and that nobody else has. */
function free(server: string, tool: string, isTaken: (name: string) => boolean): string {
  const fit = (name: string, longest = LONGEST) => name.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, longest);
  const prefixed = `${server}__${tool}`;
  let name = isTaken(fit(tool)) ? fit(prefixed) : fit(tool);
  for (let number = 2; isTaken(name); number += 1) name = `${fit(prefixed, LONGEST - 5)}_${number}`;
  return name;
}

function made(client: McpClient, { name, title, description, inputSchema }: McpTool): Tool {
  return {
    description: description ?? title ?? name,
    parameters: inputSchema as Some,
    run: async (args, { callId, division, signal }) => {
      const meta = { "toolyard/idempotency-key": callId, ...(division ? { "toolyard/division": division } : {}) };
      const options = { signal, timeout: AWAITED_S * 1000 };
      return outcome((await client.callTool({ name, arguments: args, _meta: meta }, undefined, options)) as Some);
    },
  };
}

/** What a result of MCP says, in words. Throws if it says that it is an error. */
function outcome({ content, structuredContent: structured, isError }: Some): string {
  const blocks = Array.isArray(content) ? (content as Some[]) : [];
  const said = blocks.map(blockText);
  const json = structured === undefined ? "" : JSON.stringify(structured);
  if (isError !== true) {
    return (json && !blocks.some((block) => isSame(block, json)) ? [...said, json] : said).join("\n");
  }
  const details = (structured ?? {}) as Some;
  const type = typeof details.error_type === "string" ? details.error_type : undefined;
  throw new ToolError(said.join("\n") || "the tool failed and did not say why", type, details);
}

function blockText(block: Some): string {
  const resource = (block.resource ?? {}) as Some;
  if (block.type === "text") return String(block.text);
  if (block.type === "image" || block.type === "audio") return `[${block.type}: ${block.mimeType}, ${size(block.data)} bytes]`;
  if (block.type === "resource_link") return `[resource ${block.uri}: ${block.title ?? block.name}]`;
  if (typeof resource.text === "string") return `[resource ${resource.uri}]\n${resource.text}`;
  if (typeof resource.blob === "string") return `[resource ${resource.uri}: ${resource.mimeType}, ${size(resource.blob)} bytes]`;
  return JSON.stringify(block);
}

const size = (base64: unknown): number => Math.floor((String(base64).replace(/=+$/, "").length * 3) / 4);

/** Whether a text is the structured content once more. */
function isSame({ type, text }: Some, json: string): boolean {
  if (type !== "text" || typeof text !== "string") return false;
  try {
    return JSON.stringify({ result: text }) === json || JSON.stringify(JSON.parse(text)) === json;
  } catch {
    return false;
  }
}
