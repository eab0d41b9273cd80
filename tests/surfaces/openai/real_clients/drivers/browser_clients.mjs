// OpenAI's own SDK and the AI SDK's provider in a page. Each function takes the address of `/v1` and a key, and returns
// the texts of a streamed chat completion and of a response.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";
import OpenAI from "openai";

const prompt = "Add milk to groceries";
const model = "default";

async function join(pieces) {
  let text = "";
  for await (const piece of pieces) text += piece;
  return text;
}

async function* readDeltas(chunks) {
  for await (const chunk of chunks) yield chunk.choices[0]?.delta.content ?? "";
}

async function askOpenAI(baseURL, apiKey) {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, dangerouslyAllowBrowser: true });
  const messages = [{ role: "user", content: prompt }];
  const chunks = await client.chat.completions.create({ model, messages, stream: true });
  const chat = await join(readDeltas(chunks));
  const response = await client.responses.create({ model, input: prompt });
  if (!response._request_id) throw new Error("the page cannot read the header x-request-id");
  return [chat, response.output_text];
}

async function askAiSdk(baseURL, apiKey) {
  const provider = createOpenAI({ baseURL, apiKey });
  const chat = await join(streamText({ model: provider.chat(model), prompt, maxRetries: 0 }).textStream);
  const { text } = await generateText({ model: provider.responses(model), prompt, maxRetries: 0 });
  return [chat, text];
}

window.clients = { openai: askOpenAI, "ai-sdk": askAiSdk };
