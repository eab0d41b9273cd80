// Has a conversation with CopilotKit's core, on which its React hooks are built: one tool runs here, and one of the server
// is approved. The arguments are the folder of the package and the address of the server.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url] = process.argv.slice(2);
const { resolve } = createRequire(`${folder}/package.json`);
const load = name => import(pathToFileURL(resolve(name)).href);
const { CopilotKitCore } = await load("@copilotkit/core");
const { HttpAgent } = await load("@ag-ui/client"); // the one that the core is built with
const { z } = await load("zod");

const agent = new HttpAgent({ url: `${url}/ag-ui`, threadId: "kitchen" });
const core = new CopilotKitCore({ agents__unsafe_dev_only: { default: agent } });
core.addTool({
  name: "take_photo",
  description: "Take a photo",
  parameters: z.object({ of: z.string() }),
  handler: async ({ of }) => `a photo of ${of}`,
});

async function send(content) {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  await core.runAgent({ agent });
}

await send("Look into the fridge");
await send("Order milk");
const resume = agent.pendingInterrupts.map(({ id }) => ({
  interruptId: id,
  status: "resolved",
  payload: { approved: true },
}));
await core.runAgent({ agent, resume });
console.log(JSON.stringify(agent.messages));
process.exit(0); // the core keeps a timer
