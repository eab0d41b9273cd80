// Drives Anthropic's own SDK for JavaScript, with its tool runner where there is a tool. The first argument is the folder
// of a package beside it.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(`${process.argv[2]}/`);
const { default: Anthropic } = await import(pathToFileURL(resolve("@anthropic-ai/sdk")).href);
const { betaZodTool, zodOutputFormat } = await (async () => {
  const tools = await import(pathToFileURL(resolve("@anthropic-ai/sdk/helpers/beta/zod")).href);
  const outputs = await import(pathToFileURL(resolve("@anthropic-ai/sdk/helpers/zod")).href);
  return { ...tools, ...outputs };
})();
const { z } = await import(pathToFileURL(resolve("zod")).href);

const Order = z.object({ item: z.string(), count: z.number().int() });
const joinTexts = (message) => message.content.map((block) => (block.type === "text" ? block.text : "")).join("");

class Conversation {
  constructor(url, model) {
    this.client = new Anthropic({ baseURL: url.replace(/\/v1$/, ""), apiKey: "none", maxRetries: 0 });
    Object.assign(this, { model, messages: [] });
  }

  async ask(text, streamed, hasTool) {
    const photos = [];
    let pieces = 0;
    this.messages.push({ role: "user", content: text });
    const body = { model: this.model, max_tokens: 1000, messages: this.messages };
    let message;
    if (hasTool) {
      const run = ({ of }) => {
        photos.push(of);
        return `a photo of ${of}`;
      };
      const tool = betaZodTool({
        name: "take_photo",
        description: "Take a photo of something.",
        inputSchema: z.object({ of: z.string() }),
        run,
      });
      const runner = this.client.beta.messages.toolRunner({ ...body, tools: [tool], stream: streamed });
      for await (const step of runner) message = streamed ? await step.finalMessage() : step;
    } else if (streamed) {
      const stream = this.client.messages.stream(body);
      stream.on("text", () => (pieces += 1));
      message = await stream.finalMessage();
    } else message = await this.client.messages.create(body);
    this.messages.push({ role: "assistant", content: message.content });
    return { text: joinTexts(message), pieces, finish: message.stop_reason, photos };
  }

  async askForOrder(text) {
    const message = await this.client.messages.parse({
      model: this.model,
      max_tokens: 1000,
      messages: [{ role: "user", content: text }],
      output_config: { format: zodOutputFormat(Order) },
    });
    return { order: message.parsed_output };
  }
}

let conversation;
console.log("{}"); // all packages are loaded
for await (const line of createInterface({ input: process.stdin })) {
  const { url, model, text, streamed, has_tool: hasTool, wants_order: wantsOrder } = JSON.parse(line);
  let answer = {};
  if (url) conversation = new Conversation(url, model);
  else {
    try {
      answer = await (wantsOrder ? conversation.askForOrder(text) : conversation.ask(text, streamed, hasTool));
    } catch (error) {
      answer = { error: error.constructor.name, message: String(error) };
      console.error(error);
    }
  }
  console.log(JSON.stringify(answer));
}
