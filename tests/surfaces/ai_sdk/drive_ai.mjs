// Drives the AI SDK's own chat, the one that `useChat` wraps, over lines of JSON. The arguments are the folders of the
// package in several versions.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const load = async (folder) => {
  const { resolve } = createRequire(`${folder}/package.json`);
  return import(pathToFileURL(resolve(folder)).href);
};
const packages = Object.fromEntries(
  await Promise.all(process.argv.slice(2).map(async (folder) => [folder.split("/").at(-1), await load(folder)])),
);
const chats = {};

// The state that a framework would keep: of React it is the same, with listeners.
class State {
  status = "ready";
  error = undefined;
  constructor(messages) {
    this.messages = messages;
  }
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => {
    this.messages = [...this.messages.slice(0, index), structuredClone(message), ...this.messages.slice(index + 1)];
  };
  snapshot = (value) => structuredClone(value);
}

// Passes on the frames of a response, and notes them. After `cutAfter` of them the connection breaks.
const watchFrames = (response, notes, cutAfter) => {
  let unfinished = "";
  let count = 0;
  const decoder = new TextDecoder();
  const watch = new TransformStream({
    transform(bytes, controller) {
      const pieces = (unfinished + decoder.decode(bytes, { stream: true })).split("\n\n");
      unfinished = pieces.pop();
      for (const piece of pieces) {
        if (count === cutAfter) {
          controller.error(new TypeError("network error"));
          return;
        }
        if (piece.startsWith("data: ")) {
          notes.frames.push(piece.slice(6));
          count += 1;
        }
        controller.enqueue(new TextEncoder().encode(`${piece}\n\n`));
      }
    },
  });
  const { status, headers } = response;
  return new Response(response.body?.pipeThrough(watch) ?? null, { status, headers });
};

const open = ({ version = "ai", url, id, headers = {}, body = {}, messages = [], automatic = false, photos = false }) => {
  const ai = packages[version];
  const notes = { frames: [], toolCalls: [], data: [], finishes: [], requests: [], cutAfter: -1 };
  class Chat extends ai.AbstractChat {
    constructor(options) {
      super({ ...options, state: new State(messages) });
    }
  }
  const fetchNoted = async (address, options) => {
    notes.requests.push(`${options?.method ?? "GET"} ${new URL(address).pathname}`);
    const response = await fetch(address, options);
    return response.ok ? watchFrames(response, notes, notes.cutAfter) : response;
  };
  const isComplete = (options) =>
    ai.lastAssistantMessageIsCompleteWithToolCalls(options) ||
    Boolean(ai.lastAssistantMessageIsCompleteWithApprovalResponses?.(options));
  const chat = new Chat({
    id,
    transport: new ai.DefaultChatTransport({ api: `${url}/ai-sdk/chat`, headers, body, fetch: fetchNoted }),
    sendAutomaticallyWhen: automatic ? isComplete : undefined,
    onToolCall: ({ toolCall }) => {
      notes.toolCalls.push(toolCall.toolName);
      if (!photos || toolCall.toolName !== "take_photo") return;
      const output = `a photo of ${toolCall.input.of}`;
      void (chat.addToolOutput ?? chat.addToolResult)({ tool: "take_photo", toolCallId: toolCall.toolCallId, output });
    },
    onData: (part) => notes.data.push(part),
    onFinish: ({ isAbort, isDisconnect, isError, finishReason }) =>
      notes.finishes.push({ isAbort, isDisconnect, isError, finishReason }),
    onError: () => {},
  });
  return { chat, notes };
};

const isBusy = (chat) => chat.status === "submitted" || chat.status === "streaming";
const pause = () => new Promise((done) => setTimeout(done, 5));

// Waits until the chat does nothing any more: an automatic request follows shortly after the one before.
const settle = async (chat) => {
  for (let quiet = 0; quiet < 4; quiet = isBusy(chat) ? 0 : quiet + 1) await pause();
};

const describe = ({ chat, notes }) => {
  const { frames, toolCalls, data, finishes, requests } = notes;
  Object.assign(notes, { frames: [], toolCalls: [], data: [], finishes: [], requests: [] });
  const error = chat.error?.message ?? "";
  return { messages: chat.messages, status: chat.status, error, frames, toolCalls, data, finishes, requests };
};

const editInput = (chat, toolCallId, input) => {
  chat.messages = chat.messages.map((message) => ({
    ...message,
    parts: message.parts.map((part) => (part.toolCallId === toolCallId ? { ...part, input } : part)),
  }));
};

const actions = {
  send: ({ chat }, { text, files, messageId, parts }) =>
    chat.sendMessage(parts ? { parts, messageId } : { text, files, messageId }),
  again: ({ chat }) => chat.sendMessage(),
  regenerate: ({ chat }, { messageId }) => chat.regenerate({ messageId }),
  resume: ({ chat }) => chat.resumeStream(),
  stop: ({ chat }) => chat.stop(),
  wait: () => {},
  decide: async ({ chat }, { id, approved, reason, input }) => {
    if (input) editInput(chat, id, input);
    await chat.addToolApprovalResponse({ id, approved, reason });
  },
  output: ({ chat }, { toolCallId, output, errorText }) =>
    errorText
      ? chat.addToolOutput({ state: "output-error", toolCallId, errorText })
      : chat.addToolOutput({ toolCallId, output }),
};

// Waits until as many frames have arrived as the test wants to see before it goes on.
const receive = async ({ chat, notes }, count) => {
  while (notes.frames.length < count && (isBusy(chat) || !notes.frames.length)) await pause();
};

// Has the schema of the protocol check the frames of each run, and the client build a message from them.
const validate = async ({ runs, version = "ai" }) => {
  const ai = packages[version];
  const schema = ai.uiMessageChunkSchema();
  const messages = [];
  for (const frames of runs) {
    for (const frame of frames) {
      const result = await schema.validate(frame);
      if (!result.success) return { error: `${JSON.stringify(frame)}: ${result.error.message}` };
    }
    let last;
    let failure;
    const chunks = frames.filter(({ type }) => type !== "error");
    const onError = (error) => (failure = error);
    const stream = ReadableStream.from(chunks);
    for await (const message of ai.readUIMessageStream({ stream, onError })) last = message;
    if (failure) return { error: `${failure.message} in ${JSON.stringify(frames)}` };
    messages.push(last ?? null);
  }
  return { messages };
};

const answer = async (request) => {
  if (request.action === "validate") return validate(request);
  if (request.action === "open") {
    chats[request.name] = open(request);
    return {};
  }
  const opened = chats[request.name];
  opened.notes.cutAfter = request.cutAfter ?? -1;
  const acting = Promise.resolve(actions[request.action](opened, request));
  if (request.frames !== undefined) {
    acting.catch(() => {});
    await receive(opened, request.frames);
  } else {
    await acting;
    await settle(opened.chat);
  }
  return describe(opened);
};

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  let response;
  try {
    response = await answer(JSON.parse(line));
  } catch (error) {
    response = { failure: `${error.stack}` };
  }
  console.log(JSON.stringify(response));
}
