"""A client that sends requests with an Idempotency-Key, in a process that kills itself right after a chosen commit.

It reads lines of JSON, `[DATABASE, EFFECTS, KILL_AT, HAS_NEW_KEYS]`, forks a process for each, so that the imports and
the routes are paid for once, and prints how that one ended. The next one on the same database sends all requests once
more, as a client does that lost its connection. KILL_AT 0 means never; with new keys in each process it is the negative
control.
Each effect is a line in a file that only grows.
"""

import asyncio
import json
import os
import signal
import sys
import traceback
from contextlib import aclosing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of the tests
from surfaces.in_process_client import InProcessClient
from toolyard import Context, ModelRequest, Yard, tool
from toolyard.app import Wiring
from toolyard.core.store import Append, FutureLike
from toolyard.events import Result, UserMessage
from toolyard.stores.sqlite import SqliteStore
from toolyard.surfaces import app as app
from toolyard.testing import Scripted, Turn, call, say

Json = Any
MCP_META: Json = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class DyingStore(SqliteStore):
    """A store whose process is killed right after its commit number `kill_at`, before anybody learns of the commit."""

    kill_at = 0

    def begin_append(self, append: Append) -> FutureLike | None:
        stored = super().begin_append(append)
        if stored is not None:
            stored.add_done_callback(lambda _: self._count_down())
        return stored

    def _count_down(self) -> None:
        self.kill_at -= 1
        if self.kill_at == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def script(request: ModelRequest) -> Turn:
    last = request.history[-1]
    if isinstance(last, Result):
        return say("done")
    assert isinstance(last, UserMessage)
    return call("charge", purpose=last.text)


async def send_all(client: InProcessClient, suffix: str) -> None:
    async def send(client: InProcessClient, key: str, path: str, body: object, **headers: str) -> Json:
        status, answer, _ = await client.ask("POST", path, body, idempotency_key=f"{key}{suffix}", **headers)
        assert status in (200, 201), (key, status, answer)
        return answer

    created = await send(client, "open", "/conversations", {"title": "t"})
    path = f"/conversations/{created['conversation']['id']}"
    first = await send(client, "chat", f"{path}/chat", {"content": "one"})
    question = first["user_message"]["id"]
    await send(client, "rewind", f"{path}/rewind", {"to": question})
    again = await send(client, "again", f"{path}/chat", {"content": ""})
    assert again["run_id"] != first["run_id"] and again["user_message"]["id"] == question
    forked = await send(client, "fork", f"{path}/fork", {"after": first["run_id"]})
    fork_path = f"/conversations/{forked['conversation']['id']}"
    async with aclosing(
        client.stream("POST", f"{fork_path}/chat", {"content": "three"}, idempotency_key=f"stream{suffix}")
    ) as events:
        last = [event async for _, event in events][-1]
    assert (last["type"], last["ending"]) == ("done", "done"), last
    await send(client, "message", f"{path}/messages", {"role": "user", "content": "a note"})
    params = {"name": "charge", "arguments": {"purpose": "four"}, "_meta": MCP_META}
    rpc = {"jsonrpc": "2.0", "id": os.getpid(), "method": "tools/call", "params": params}
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "charge"}
    called = await send(client, "mcp", "/mcp", rpc, **headers)
    assert "result" in called, called
    history = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    respond = {"prompt": "five", "history": history}
    async with aclosing(client.stream("POST", "/ai/respond", respond, idempotency_key=f"respond{suffix}")) as events:
        last = [event async for _, event in events][-1]
    assert last["ending"] == "done", last


async def run(database: str, effects: str, kill_at: int, has_new_keys: bool) -> None:
    file = os.open(effects, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    @tool
    async def charge(purpose: str, context: Context) -> str:
        """Have an effect that must not happen twice."""
        os.write(file, f"{purpose} {context.idempotency_key}\n".encode())
        return "charged"

    store = await DyingStore.open(Path(database))
    assert isinstance(store, DyingStore)
    store.kill_at = kill_at
    wiring = Wiring(model=Scripted(script), tools=[charge], opened_store=store)
    async with asyncio.timeout(60), Yard.from_wiring(wiring) as yard:
        await send_all(InProcessClient(yard.asgi(), {}), str(os.getpid()) if has_new_keys else "")


def main() -> None:
    app.build_router(app.SURFACES)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                asyncio.run(run(*json.loads(line)))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
