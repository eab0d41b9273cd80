// Drives OpenAI's own SDK for JavaScript, over the same lines of JSON as the Python drivers. The first argument is the
// folder of the package.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const { resolve } = createRequire(`${process.argv[2]}/`);
const { default: OpenAI } = await import(pathToFileURL(resolve("openai")).href);
const { zodResponseFormat, zodTextFormat } = await import(pathToFileURL(resolve("openai/helpers/zod")).href);
const { z } = await import(pathToFileURL(resolve("zod")).href);

const parameters = {
  type: "object",
  properties: { of: { type: "string" } },
  required: ["of"],
  additionalProperties: false,
};
const Order = z.object({ item: z.string(), count: z.number().int() });
const takePhoto = (photos, { of }) => {
  photos.push(of);
  return `a photo of ${of}`;
};

class Chat {
  constructor(client, model) {
    Object.assign(this, { client, model, messages: [] });
  }

  async ask(text, streamed, hasTool) {
    const photos = [];
    let pieces = 0;
    const messages = [...this.messages, { role: "user", content: text }];
    const tool = { name: "take_photo", parameters, parse: JSON.parse, function: (args) => takePhoto(photos, args) };
    const body = { model: this.model, messages, stream: streamed };
    const { completions } = this.client.chat;
    let runner;
    if (hasTool) runner = completions.runTools({ ...body, tools: [{ type: "function", function: tool }] });
    else if (streamed) runner = completions.stream(body);
    if (streamed) runner.on("content", () => (pieces += 1));
    const completion = runner ? await runner.finalChatCompletion() : await completions.create(body);
    const { message, finish_reason: finish } = completion.choices[0];
    this.messages = runner ? [...runner.messages] : [...messages, message];
    return { text: message.content, pieces, finish, photos };
  }

  async askForOrder(text) {
    const completion = await this.client.chat.completions.parse({
      model: this.model,
      messages: [{ role: "user", content: text }],
      response_format: zodResponseFormat(Order, "order"),
    });
    return { order: completion.choices[0].message.parsed };
  }
}

class Responses {
  constructor(client, model) {
    Object.assign(this, { client, model, previous: undefined });
  }

  async ask(text, streamed, hasTool) {
    const photos = [];
    const tools = hasTool ? [{ type: "function", name: "take_photo", parameters, strict: true }] : [];
    let input = [{ role: "user", content: text }];
    for (;;) {
      const body = { model: this.model, input, tools, previous_response_id: this.previous };
      let pieces = 0;
      let response;
      if (streamed) {
        const stream = this.client.responses.stream(body);
        stream.on("response.output_text.delta", () => (pieces += 1));
        response = await stream.finalResponse();
      } else response = await this.client.responses.create(body);
      this.previous = response.id;
      const calls = response.output.filter((item) => item.type === "function_call");
      if (!calls.length) {
        return { text: response.output_text, pieces, finish: response.incomplete_details?.reason ?? "stop", photos };
      }
      input = calls.map((call) => ({
        type: "function_call_output",
        call_id: call.call_id,
        output: takePhoto(photos, JSON.parse(call.arguments)),
      }));
    }
  }

  async askForOrder(text) {
    const format = zodTextFormat(Order, "order");
    const response = await this.client.responses.parse({ model: this.model, input: text, text: { format } });
    return { order: response.output_parsed };
  }
}

let conversation;
console.log("{}"); // all packages are loaded
for await (const line of createInterface({ input: process.stdin })) {
  const { url, api, model, text, streamed, has_tool: hasTool, wants_order: wantsOrder } = JSON.parse(line);
  let answer = {};
  if (url) {
    const client = new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 });
    conversation = new (api === "chat" ? Chat : Responses)(client, model);
  } else {
    try {
      answer = await (wantsOrder ? conversation.askForOrder(text) : conversation.ask(text, streamed, hasTool));
    } catch (error) {
      answer = { error: error.constructor.name, message: String(error) };
      console.error(error);
    }
  }
  console.log(JSON.stringify(answer));
}
