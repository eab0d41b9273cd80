// Drives the AI SDK with its provider for Anthropic. The first argument is the folder of a package beside it.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(`${process.argv[2]}/`);
const { generateText, streamText, Output, stepCountIs, tool } = await import(pathToFileURL(resolve("ai")).href);
const { createAnthropic } = await import(pathToFileURL(resolve("@ai-sdk/anthropic")).href);
const { z } = await import(pathToFileURL(resolve("zod")).href);

const Order = z.object({ item: z.string(), count: z.number().int() });

class Conversation {
  constructor(url, model) {
    this.model = createAnthropic({ baseURL: url, apiKey: "none" })(model);
    this.messages = [];
  }

  async ask(text, streamed, hasTool) {
    const photos = [];
    let pieces = 0;
    this.messages.push({ role: "user", content: text });
    const take_photo = tool({
      description: "Take a photo of something.",
      inputSchema: z.object({ of: z.string() }),
      execute: async ({ of }) => {
        photos.push(of);
        return `a photo of ${of}`;
      },
    });
    const options = {
      model: this.model,
      messages: this.messages,
      maxRetries: 0,
      maxOutputTokens: 1000,
      stopWhen: stepCountIs(5),
      ...(hasTool ? { tools: { take_photo } } : {}),
    };
    let failure;
    const result = streamed
      ? streamText({ ...options, onError: ({ error }) => (failure = error) })
      : await generateText(options);
    if (streamed) for await (const piece of result.textStream) pieces += piece ? 1 : 0;
    if (failure) throw failure;
    const [answer, finish, response] = await Promise.all([result.text, result.finishReason, result.response]);
    this.messages.push(...response.messages);
    return { text: answer, pieces, finish, photos };
  }

  async askForOrder(text) {
    const output = Output.object({ schema: Order });
    const result = await generateText({ model: this.model, prompt: text, maxRetries: 0, output });
    return { order: result.output };
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
