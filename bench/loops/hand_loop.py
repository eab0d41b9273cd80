"""A careful hand-written loop on aiohttp and msgspec, without any feature of Toolyard.

It streams, keeps the history encoded, decodes straight into structs and runs the calls of a turn together.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parent))
from _measure import QUESTION, Run, Setting, main

ADD_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
NAP_SCHEMA = {"type": "object", "properties": {"ms": {"type": "integer"}}, "required": ["ms"]}


class FunctionDelta(Struct):
    name: str | None = None
    arguments: str | None = None


class CallDelta(Struct):
    index: int
    id: str | None = None
    function: FunctionDelta | None = None


class Delta(Struct):
    content: str | None = None
    tool_calls: list[CallDelta] | None = None


class Choice(Struct):
    delta: Delta
    finish_reason: str | None = None


class Chunk(Struct):
    choices: list[Choice]


class AddArguments(Struct):
    a: int
    b: int


class NapArguments(Struct):
    ms: int


class ToolCall(Struct):
    id: str
    name: str
    arguments: str = ""


encode = msgspec.json.Encoder().encode
decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_add = msgspec.json.Decoder(AddArguments).decode
decode_nap = msgspec.json.Decoder(NapArguments).decode


class Turn:
    """The text and the calls of one reply, read from its packets."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self.text: list[str] = []
        self.calls: list[ToolCall] = []
        self.finish_reason: str | None = None
        self._on_text = on_text
        self._unfinished = b""

    def feed(self, packet: bytes) -> None:
        *events, self._unfinished = (self._unfinished + packet).split(b"\n\n")
        for event in events:
            if event.startswith(b"data: ") and event != b"data: [DONE]":
                for choice in decode_chunk(event[6:]).choices:
                    self._take(choice)

    def _take(self, choice: Choice) -> None:
        delta = choice.delta
        if delta.content:
            self.text.append(delta.content)
            self._on_text(delta.content)
        for call in delta.tool_calls or ():
            if call.index == len(self.calls):
                self.calls.append(ToolCall(call.id or "", (call.function and call.function.name) or ""))
            if call.function and call.function.arguments:
                self.calls[call.index].arguments += call.function.arguments
        self.finish_reason = choice.finish_reason or self.finish_reason

    def encode_message(self) -> bytes:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self.calls
        ]
        return encode({"role": "assistant", "content": None, "tool_calls": calls})


class Loop:
    def __init__(self, session: aiohttp.ClientSession, setting: Setting) -> None:
        self._session = session
        self._url = f"{setting.base_url}/chat/completions"
        self._tools: dict[str, Callable[[str], Awaitable[object]]] = {
            "add": lambda text: self._add(setting, text),
            "nap": lambda text: self._nap(setting, text),
        }
        self._head = b'{"model":"bench","stream":true,"stream_options":{"include_usage":true},"tools":'
        self._head += encode(_build_schemas(setting)) + b',"messages":['
        self._prior = [
            encode({"role": role, "content": text})
            for pair in setting.build_prior_texts()
            for role, text in zip(("user", "assistant"), pair, strict=True)
        ]
        self.received_chars = 0

    async def run(self) -> str:
        history = [*self._prior, encode({"role": "user", "content": QUESTION})]
        while True:
            turn = Turn(self._count_text)
            await self._stream(turn, self._head + b",".join(history) + b"]}")
            if not turn.calls:
                return "".join(turn.text)
            history.append(turn.encode_message())
            results = await asyncio.gather(*(self._tools[call.name](call.arguments) for call in turn.calls))
            for call, result in zip(turn.calls, results, strict=True):
                content = result if isinstance(result, str) else encode(result).decode()
                history.append(encode({"role": "tool", "tool_call_id": call.id, "content": content}))

    async def _stream(self, turn: Turn, body: bytes) -> None:
        async with self._session.post(self._url, data=body) as response:
            response.raise_for_status()
            async for packet in response.content.iter_any():
                turn.feed(packet)

    def _count_text(self, text: str) -> None:
        self.received_chars += len(text)

    @staticmethod
    async def _add(setting: Setting, text: str) -> int:
        arguments = decode_add(text)
        return await setting.add(arguments.a, arguments.b)

    @staticmethod
    async def _nap(setting: Setting, text: str) -> str:
        return await setting.nap(decode_nap(text).ms)


def _build_schemas(setting: Setting) -> list[dict[str, object]]:
    tools = [("add", "Add two numbers.", ADD_SCHEMA), ("nap", "Rest for some milliseconds.", NAP_SCHEMA)]
    tools += [(f"add_{number}", "Add two numbers.", ADD_SCHEMA) for number in range(1, setting.tools)]
    return [
        {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
        for name, description, parameters in tools
    ]


@asynccontextmanager
async def open_hand_loop(setting: Setting) -> AsyncIterator[Run]:
    headers = {"Content-Type": "application/json", "Authorization": "Bearer bench"}
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield Loop(session, setting).run


if __name__ == "__main__":
    main(open_hand_loop)
