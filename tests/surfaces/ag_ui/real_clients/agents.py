"""A process of Node that drives agents of `@ag-ui/client`, and a yard for them."""

import asyncio
import itertools
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread

import aiohttp
import msgspec
from msgspec import Struct

from real_servers import find_node, install_npm_package
from surfaces.api_client import Json
from surfaces.http_server import serve_yard
from toolyard import ToolLike, Yard, tool
from toolyard.app import Wiring
from toolyard.testing import Script, Scripted
from toolyard.venues.function import as_tool

TEST_TIMEOUT_S = 60.0
ANSWER_S = 50.0
CAMERA: Json = {
    "name": "take_photo",
    "description": "Take a photo",
    "parameters": {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]},
}
"""A tool that the front end runs."""
done: list[str] = []
"""What the tools below did in this test."""


@tool
def add_to_groceries(item: str) -> str:
    """Add an item to the groceries."""
    done.append(item)
    return f"added {item}"


@tool(approval="ask")
def order(item: str) -> str:
    """Order an item."""
    done.append(f"ordered {item}")
    return f"ordered {item}"


class AgentProcess:
    """Agents of `@ag-ui/client` in one process of Node."""

    def __init__(self) -> None:
        folder = install_npm_package("@ag-ui/client").parents[1]
        command = [find_node()[0], str(Path(__file__).parent / "drive_agents.mjs"), str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr)
        self._open: dict[int, Future[Json]] = {}
        self._ids = itertools.count(1)
        self._reading = Thread(target=self._read_answers, daemon=True)
        self._reading.start()

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = msgspec.json.decode(line)
            if "id" in answer:
                self._open.pop(answer["id"]).set_result(answer["reply"])
        for future in self._open.values():
            future.set_exception(RuntimeError("the process of the agents has ended"))

    async def ask(self, operation: str, **fields: object) -> Json:
        """Return the answer to an operation. An agent must have no complaint about what it received."""
        request_id, future = next(self._ids), Future[Json]()
        self._open[request_id] = future
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode({"id": request_id, "operation": operation, **fields}) + b"\n")
        self._process.stdin.flush()
        async with asyncio.timeout(ANSWER_S):
            answer = await asyncio.wrap_future(future)
        assert answer.pop("warnings") == []
        return answer

    def close(self) -> None:
        self._process.kill()
        self._reading.join()
        self._process.communicate()


class AgentRun(Struct, frozen=True, kw_only=True):
    """What an agent's application sees of a run."""

    events: list[Json]
    messages: list[Json]
    state: Json = None
    interrupts: list[Json] = []
    outcome: str = ""
    pending: list[str] = []
    error: str = ""

    @property
    def text(self) -> str:
        """Return what the assistant said last."""
        texts = [message.get("content") for message in self.messages if message["role"] == "assistant"]
        return next((text for text in reversed(texts) if text), "")

    def list_types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def list_messages(self) -> list[str]:
        """Return the messages in short."""
        return [describe(message) for message in self.messages]


def describe(message: Json) -> str:
    calls = [f"{call['function']['name']}{call['function']['arguments']}" for call in message.get("toolCalls", ())]
    return " ".join([f"{message['role']}:", *([message["content"]] if message.get("content") else []), *calls])


class Agent:
    """One agent: a thread in one tab of a front end."""

    _numbers = itertools.count(1)

    def __init__(self, process: AgentProcess, url: str, thread_id: str, client: str, **headers: str) -> None:
        self._process = process
        self.name = f"agent-{next(Agent._numbers)}"
        self._config = {"url": f"{url}/ag-ui", "threadId": thread_id, "client": client, "headers": headers}

    async def open(self) -> None:
        await self._process.ask("open", agent=self.name, **self._config)

    async def run(self, text: str = "", *, message_id: str = "", **parameters: Json) -> AgentRun:
        """Run the agent, after a message of the user if there is one."""
        if text:
            message_id = message_id or f"user-{next(Agent._numbers)}"
            parameters["message"] = {"id": message_id, "role": "user", "content": text}
        answer = await self._process.ask("run", agent=self.name, **parameters)
        return msgspec.convert(answer, AgentRun)

    async def deliver(self, call_id: str, content: str, **parameters: Json) -> AgentRun:
        """Run the agent after the result of a front-end tool."""
        parameters["message"] = {"id": f"{call_id}-sent", "role": "tool", "toolCallId": call_id, "content": content}
        return await self.run(**parameters)

    async def resume(self, interrupts: Sequence[Json], payload: object = None, **parameters: Json) -> AgentRun:
        """Run the agent with the same answer to all interrupts; None cancels them."""
        answer = {"status": "cancelled"} if payload is None else {"status": "resolved", "payload": payload}
        entries = [{"interruptId": interrupt["id"], **answer} for interrupt in interrupts]
        return await self.run(resume=entries, **parameters)

    async def wait_for_text(self, text: str) -> None:
        """Return once a message of the agent holds a text."""
        await self._process.ask("waitFor", agent=self.name, text=text)

    async def change(self, **fields: object) -> Json:
        return await self._process.ask("change", agent=self.name, **fields)


class ServedAgents(Struct, frozen=True):
    """A yard that is served, and agents of it."""

    process: AgentProcess
    yard: Yard
    model: Scripted
    url: str

    async def get(self, path: str) -> Json:
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as response:
            return await response.json()

    async def open_agent(self, thread_id: str = "thread-1", client: str = "current", **headers: str) -> Agent:
        agent = Agent(self.process, self.url, thread_id, client, **headers)
        await agent.open()
        return agent


@asynccontextmanager
async def serve_script(
    process: AgentProcess,
    script: Script,
    tools: Sequence[ToolLike] = (add_to_groceries, order),
    store: str = "memory:",
    code: bool = False,
) -> AsyncGenerator[ServedAgents, None]:
    """Serve a yard with a scripted model. The block fails after TEST_TIMEOUT_S."""
    done.clear()
    model = Scripted(script)
    wiring = Wiring(model=model, tools=[as_tool(function) for function in tools], store=store, code=code)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard, serve_yard(yard) as url:
        yield ServedAgents(process, yard, model, url)
