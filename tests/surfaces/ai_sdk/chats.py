"""The AI SDK's own chat, in a process of Node that drives any number of them."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from real_servers import find_node, install_npm_package
from surfaces.line_process import LineProcess

DRIVER = Path(__file__).parent / "drive_ai.mjs"
VERSIONS = ("ai", "ai5", "ai6")
Json = Any


class ChatState(Struct, frozen=True, kw_only=True, rename={"tool_calls": "toolCalls"}):
    """What a chat shows after an action, and what has come since the action before."""

    messages: list[Json] = []
    status: str = ""
    error: str = ""
    frames: list[str] = []
    tool_calls: list[str] = []
    """The tools that the client was told to run."""
    data: list[Json] = []
    finishes: list[Json] = []
    requests: list[str] = []

    @property
    def last_parts(self) -> list[Json]:
        """Return the parts of the last message without those that only separate steps."""
        return [part for part in self.messages[-1]["parts"] if part["type"] != "step-start"]

    @property
    def text(self) -> str:
        return "".join(part["text"] for part in self.last_parts if part["type"] == "text")

    @property
    def frame_types(self) -> list[str]:
        return [msgspec.json.decode(frame)["type"] for frame in self.frames if frame != "[DONE]"]

    def get_tool(self, name: str) -> Json:
        """Return the last part of a tool."""
        return [part for part in self.last_parts if part["type"] == f"tool-{name}"][-1]


class ChatProcess:
    """A process that drives chats."""

    def __init__(self) -> None:
        folders = [str(install_npm_package(version)) for version in VERSIONS]
        command = [find_node()[0], str(DRIVER), *folders]
        self._process = LineProcess(command)
        self._opened = 0

    async def open(self, url: str, id: str, **options: object) -> "ChatClient":
        self._opened += 1
        name = str(self._opened)
        await self.request({"action": "open", "name": name, "url": url, "id": id, **options})
        return ChatClient(self, name)

    async def validate(self, runs: list[list[Json]]) -> list[Json]:
        """Return the messages that the client builds from the frames of some runs, which the schema accepts."""
        answer = await self.request({"action": "validate", "runs": runs})
        assert "error" not in answer, answer["error"]
        return answer["messages"]

    async def request(self, request: dict[str, object]) -> Json:
        answer = msgspec.json.decode(await self._process.request(request))
        assert "failure" not in answer, answer["failure"]
        return answer

    def close(self) -> None:
        self._process.close()


class ChatClient:
    """One chat. Each action returns once the chat is at rest, or has received as many `frames` as are asked for."""

    def __init__(self, process: ChatProcess, name: str) -> None:
        self._process = process
        self._name = name

    async def send(self, text: str = "Hello", **options: object) -> ChatState:
        return await self.act("send", text=text, **options)

    async def decide(self, id: str, approved: bool, **options: object) -> ChatState:
        return await self.act("decide", id=id, approved=approved, **options)

    async def act(self, action: str, **options: object) -> ChatState:
        answer = await self._process.request({"action": action, "name": self._name, **options})
        return msgspec.convert(answer, ChatState)
