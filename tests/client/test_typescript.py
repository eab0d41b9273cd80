"""Parts of the TypeScript client by themselves."""

import asyncio
import json
import subprocess

import pytest

from client.drivers import PACKAGE, build_package, node_path
from tcp_servers import serve_connections

TIMEOUT_S = 60
HURRIED = """
let waits = 0;
const later = setTimeout;
globalThis.setTimeout = (work, ms) => later(work, ms === 60_000 && waits++ ? 50 : ms);
"""
"""The second minute of silence, that of the body, is short."""


@pytest.fixture(scope="module", autouse=True)
def package() -> None:
    build_package()


def run_module(module: str, script: str, *words: str) -> object:
    """What a script tells that is given the parts of a module."""
    code = f"const module = await import(process.argv[1]), words = process.argv.slice(2);{script}"
    command = [node_path(), "--input-type=module", "-e", code, (PACKAGE / "dist" / f"{module}.js").as_uri(), *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return json.loads(done.stdout)


@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad Request"])
async def test_a_body_that_does_not_come_is_given_up(status: bytes) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 " + status + b'\r\nContent-Length: 100\r\n\r\n{"error":')
        await reader.read()

    script = HURRIED + (
        "const http = new module.HttpTransport(words[0], {});"
        "console.log(JSON.stringify(await http.requestJson('GET', '/').catch((error) => error.name))); process.exit(0)"
    )

    async def run() -> object:
        async with serve_connections(silent) as port:
            return await asyncio.to_thread(run_module, "http", script, f"http://127.0.0.1:{port}")

    assert (await run()) == ("ConnectionLostError" if status.startswith(b"200") else "ToolyardError")


def test_a_tool_that_may_take_for_ever_is_awaited_for_a_day() -> None:
    script = """
    const run = () => new Promise((resolve) => setTimeout(() => resolve("done"), 20));
    const tools = new module.LocalTools({ endless: { description: "", timeoutSeconds: Infinity, run } });
    const toolCalls = [{ id: "1", name: "endless", arguments: {} }];
    const results = await tools.runCalls({ conversationId: "c", toolCalls });
    console.log(JSON.stringify([tools.listDefinitions()[0].timeoutSeconds, results]));
    """
    assert run_module("tools", script) == [86_400, [{"toolCallId": "1", "result": "done"}]]


def test_a_result_is_what_it_was_when_the_tool_ended() -> None:
    script = """
    const cart = { things: 1 }, later = () => new Promise((resolve) => setTimeout(resolve));
    const tools = new module.LocalTools({
      get_cart: { description: "", run: () => cart },
      add: { description: "", run: () => later().then(() => { cart.things += 1; }) },
    });
    const toolCalls = [{ id: "1", name: "get_cart", arguments: {} }, { id: "2", name: "add", arguments: {} }];
    console.log(JSON.stringify((await tools.runCalls({ conversationId: "c", toolCalls }))[0].result));
    """
    assert run_module("tools", script) == {"things": 1}


def test_a_tool_of_a_server_has_as_long_as_one_of_the_application() -> None:
    script = """
    let asked;
    const server = {
      listTools: async () => ({ tools: [{ name: "slow", inputSchema: {} }] }),
      callTool: async (params, schema, options) => { asked = options.timeout; return { content: [] }; },
    };
    const { slow } = await module.loadServerTools({ server }, []);
    await slow.run({}, { callId: "1", division: "", signal: new AbortController().signal });
    console.log(JSON.stringify(asked ?? 0));
    """
    assert run_module("mcpServers", script) == 600_000
