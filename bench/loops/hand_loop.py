"""The loop as one would write it by hand on aiohttp and msgspec: none of our features, but nothing foolish either.

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

ADDS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
NAPS = {"type": "object", "properties": {"ms": {"type": "integer"}}, "required": ["ms"]}


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


class Asked(Struct):
    id: str
    name: str
    arguments: str = ""


encode = msgspec.json.Encoder().encode
decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_add = msgspec.json.Decoder(AddArguments).decode
decode_nap = msgspec.json.Decoder(NapArguments).decode


class Turn:
    """What one reply comes to."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self.text: list[str] = []
        self.calls: list[Asked] = []
        self.finish_reason: str | None = None
        self._on_text = on_text
        self._rest = b""

    def feed(self, packet: bytes) -> None:
        *events, self._rest = (self._rest + packet).split(b"\n\n")
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
                self.calls.append(Asked(call.id or "", (call.function and call.function.name) or ""))
            if call.function and call.function.arguments:
                self.calls[call.index].arguments += call.function.arguments
        self.finish_reason = choice.finish_reason or self.finish_reason

    def message(self) -> bytes:
        calls = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
            for one in self.calls
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
        self._head += encode(_schemas(setting)) + b',"messages":['
        self._prior = [
            encode({"role": role, "content": text})
            for pair in setting.texts()
            for role, text in zip(("user", "assistant"), pair, strict=True)
        ]
        self.heard = 0

    async def run(self) -> str:
        history = [*self._prior, encode({"role": "user", "content": QUESTION})]
        while True:
            turn = Turn(self._hear)
            await self._stream(turn, self._head + b",".join(history) + b"]}")
            if not turn.calls:
                return "".join(turn.text)
            history.append(turn.message())
            results = await asyncio.gather(*(self._tools[call.name](call.arguments) for call in turn.calls))
            for call, result in zip(turn.calls, results, strict=True):
                content = result if isinstance(result, str) else encode(result).decode()
                history.append(encode({"role": "tool", "tool_call_id": call.id, "content": content}))

    async def _stream(self, turn: Turn, body: bytes) -> None:
        async with self._session.post(self._url, data=body) as response:
            response.raise_for_status()
            async for packet in response.content.iter_any():
                turn.feed(packet)

    def _hear(self, text: str) -> None:
        self.heard += len(text)

    @staticmethod
    async def _add(setting: Setting, text: str) -> int:
        given = decode_add(text)
        return await setting.add(given.a, given.b)

    @staticmethod
    async def _nap(setting: Setting, text: str) -> str:
        return await setting.nap(decode_nap(text).ms)


def _schemas(setting: Setting) -> list[dict[str, object]]:
    named = [("add", "Add two numbers.", ADDS), ("nap", "Rest for some milliseconds.", NAPS)]
    named += [(f"add_{number}", "Add two numbers.", ADDS) for number in range(1, setting.tools)]
    return [
        {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}
        for name, about, parameters in named
    ]


@asynccontextmanager
async def hand(setting: Setting) -> AsyncIterator[Run]:
    headers = {"Content-Type": "application/json", "Authorization": "Bearer bench"}
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield Loop(session, setting).run


if __name__ == "__main__":
    main(hand)
