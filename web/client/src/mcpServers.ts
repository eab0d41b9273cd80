// The tools of the application's MCP servers, under names that do not collide. This package brings no MCP client: the
// application passes its own, over any transport.

import { DEFAULT_TIMEOUT_S, type Tool, ToolError } from "./tools.js";

const LIST_TIMEOUT_MS = 30_000;
/** A server that always returns another cursor would be listed without end. */
const MAX_PAGES = 200;
const MAX_NAME_CHARS = 64;

type JsonObject = Record<string, unknown>;

/** The part of an MCP client that is used here. A connected `Client` of `@modelcontextprotocol/sdk` is one. */
export interface McpClient {
  listTools(params?: { cursor?: string }, options?: { timeout?: number }): Promise<{ tools: McpTool[]; nextCursor?: string | undefined }>;
  callTool(
    params: { name: string; arguments?: JsonObject; _meta?: JsonObject },
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

/** Return the tools of all servers by name. A tool whose name is taken gets its server's name as a prefix. */
export async function loadServerTools(
  servers: Readonly<Record<string, McpClient>>,
  taken: readonly string[],
): Promise<Record<string, Tool>> {
  const listings = await Promise.all(
    Object.entries(servers).map(async ([server, client]) => ({ server, client, remoteTools: await listTools(server, client) })),
  );
  const tools: Record<string, Tool> = {};
  for (const { server, client, remoteTools } of listings) {
    for (const remote of remoteTools) {
      const name = chooseName(server, remote.name, (candidate) => Object.hasOwn(tools, candidate) || taken.includes(candidate));
      tools[name] = toTool(client, remote);
    }
  }
  return tools;
}

async function listTools(server: string, client: McpClient): Promise<McpTool[]> {
  const tools: McpTool[] = [];
  let cursor: string | undefined;
  try {
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const listing = await client.listTools(cursor ? { cursor } : {}, { timeout: LIST_TIMEOUT_MS });
      tools.push(...listing.tools);
      cursor = listing.nextCursor;
      if (!cursor) break;
    }
  } catch (error) {
    throw new Error(`the tools of server ${server} could not be listed: ${error instanceof Error ? error.message : String(error)}`);
  }
  return tools;
}

/** Return a free name, of the characters and the length that every provider accepts. */
function chooseName(server: string, tool: string, isTaken: (name: string) => boolean): string {
  const clean = (name: string, maxChars = MAX_NAME_CHARS) => name.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, maxChars);
  const prefixed = `${server}__${tool}`;
  let name = isTaken(clean(tool)) ? clean(prefixed) : clean(tool);
  for (let number = 2; isTaken(name); number += 1) name = `${clean(prefixed, MAX_NAME_CHARS - 5)}_${number}`;
  return name;
}

function toTool(client: McpClient, { name, title, description, inputSchema }: McpTool): Tool {
  return {
    description: description ?? title ?? name,
    parameters: inputSchema as JsonObject,
    run: async (args, { callId, division, signal }) => {
      const meta = { "toolyard/idempotency-key": callId, ...(division ? { "toolyard/division": division } : {}) };
      const options = { signal, timeout: DEFAULT_TIMEOUT_S * 1000 };
      return readResult((await client.callTool({ name, arguments: args, _meta: meta }, undefined, options)) as JsonObject);
    },
  };
}

/** Return the text of an MCP result. Throws ToolError if the result is an error. */
function readResult({ content, structuredContent: structured, isError }: JsonObject): string {
  const blocks = Array.isArray(content) ? (content as JsonObject[]) : [];
  const texts = blocks.map(blockToText);
  const json = structured === undefined ? "" : JSON.stringify(structured);
  if (isError !== true) {
    return (json && !blocks.some((block) => repeatsJson(block, json)) ? [...texts, json] : texts).join("\n");
  }
  const details = (structured ?? {}) as JsonObject;
  const type = typeof details.error_type === "string" ? details.error_type : undefined;
  throw new ToolError(texts.join("\n") || "the tool failed and did not say why", type, details);
}

function blockToText(block: JsonObject): string {
  const resource = (block.resource ?? {}) as JsonObject;
  if (block.type === "text") return String(block.text);
  if (block.type === "image" || block.type === "audio") return `[${block.type}: ${block.mimeType}, ${countBytes(block.data)} bytes]`;
  if (block.type === "resource_link") return `[resource ${block.uri}: ${block.title ?? block.name}]`;
  if (typeof resource.text === "string") return `[resource ${resource.uri}]\n${resource.text}`;
  if (typeof resource.blob === "string") return `[resource ${resource.uri}: ${resource.mimeType}, ${countBytes(resource.blob)} bytes]`;
  return JSON.stringify(block);
}

const countBytes = (base64: unknown): number => Math.floor((String(base64).replace(/=+$/, "").length * 3) / 4);

/** Return whether a text block repeats the structured content, as MCP advises servers to do for older clients. */
function repeatsJson({ type, text }: JsonObject, json: string): boolean {
  if (type !== "text" || typeof text !== "string") return false;
  try {
    return JSON.stringify({ result: text }) === json || JSON.stringify(JSON.parse(text)) === json;
  } catch {
    return false;
  }
}
