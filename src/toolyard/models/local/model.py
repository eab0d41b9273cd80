"""A model on this machine: a GGUF file, run by llama.cpp in a process of its own. Needs the extra `toolyard[local]`.

It is loaded by the first request. A grammar restricts its answers, so that even a small model's calls can be parsed and
fit their schemas.
"""

import asyncio
import importlib.util
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from itertools import count
from pathlib import Path
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.errors import Misconfigured, install_command
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.models.options import Options
from toolyard.models.local.prompt import build_grammar, build_messages
from toolyard.models.local.reply import LocalChunk, LocalReply
from toolyard.models.shared.option_support import list_ignored, select_extras

DEFAULT_CONTEXT = 8192
MIN_CONTEXT, MAX_CONTEXT = 512, 1_048_576
MAX_TOKENS = 2048
"""The longest answer, unless the request sets another."""
MAX_SILENCE_S = 600.0
"""The longest wait for the next line: a large model takes long to load, and to read a long history."""
STOP_GRACE_S = 2.0
MAX_LINE_BYTES = 8_000_000
PACKAGE = "xllamacpp"
EXTRA_OPTIONS = ("frequency_penalty", "presence_penalty")


class LlamaRequest(Struct, frozen=True, tag="asked"):
    """A line to the process of the model."""

    number: int
    body: dict[str, object]


class LlamaStop(Struct, frozen=True, tag="stop"):
    """A line to the process: no more of this answer is read."""

    number: int


class LlamaLine(Struct, frozen=True):
    """A line from the process. One without a chunk ends an answer."""

    number: int
    chunk: dict[str, object] | None = None


class Local:
    def __init__(self, name: str, runner: Sequence[str] = ("-m", "toolyard.models.local.llama_process")) -> None:
        """`name` is a path, perhaps with `?context=16384`. Raises Misconfigured if the file or a package is missing."""
        path, _, query = name.partition("?")
        self._path, self._context, self._runner = Path(path).expanduser(), _parse_context(query), runner
        if importlib.util.find_spec(PACKAGE) is None:
            raise Misconfigured(f"a local model needs more packages: {install_command('local')} ({PACKAGE})")
        if not self._path.is_file():
            raise Misconfigured(f"there is no file {path!r}: a local model is the path of a GGUF file")
        self._process: Process | None = None
        self._numbers = count(1)
        self._turn = asyncio.Lock()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        """Yield deltas, then one TurnEnded or TurnFailed. Closing the generator stops the model at its next token."""
        reply = LocalReply(request)
        async with self._turn:  # the process answers one request at a time
            process, number, over = await self._ensure_process(), next(self._numbers), False
            self._send(process, LlamaRequest(number=number, body=_build_body(request)))
            try:
                while not over:
                    line = await asyncio.wait_for(_read_line(process), MAX_SILENCE_S)
                    # Lines of another number are the rest of a request that was stopped before its end.
                    over = line is None or (line.number == number and line.chunk is None)
                    if line is None:
                        reply.fail("the process of the local model ended; the next request starts it anew")
                    elif line.number == number and line.chunk is not None:
                        for event in reply.feed(msgspec.convert(line.chunk, LocalChunk)):
                            yield event
            except TimeoutError:
                reply.fail(f"the local model said nothing for {MAX_SILENCE_S:g} s")
            finally:
                if not over:
                    self._send(process, LlamaStop(number=number))
        for event in reply.end():
            yield event

    def list_ignored(self, options: Options) -> list[str]:
        """Return the names of the options that are set and not passed to llama.cpp."""
        return list_ignored(options, EXTRA_OPTIONS, ("thinking",))

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_GRACE_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _ensure_process(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            command = (sys.executable, *self._runner, str(self._path), str(self._context))
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, limit=MAX_LINE_BYTES
            )
        return self._process

    def _send(self, process: Process, order: LlamaRequest | LlamaStop) -> None:
        if process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(msgspec.json.encode(order) + b"\n")


async def _read_line(process: Process) -> LlamaLine | None:
    """Return the next line; None once the process has ended."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line.endswith(b"\n"):
        await process.wait()
        return None
    return msgspec.json.decode(line, type=LlamaLine)


def _build_body(request: ModelRequest) -> dict[str, object]:
    body: dict[str, object] = {
        "messages": build_messages(request),
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": request.options.max_tokens or MAX_TOKENS,
    }
    if grammar := build_grammar(request):
        body["grammar"] = grammar
    return body | _build_sampling(request.options)


def _build_sampling(options: Options) -> dict[str, object]:
    """Return the options that llama.cpp has under the names of Chat Completions. A schema is part of the grammar."""
    sampling = {"temperature": options.temperature, "top_p": options.top_p, "seed": options.seed}
    set_fields: dict[str, object] = {name: value for name, value in sampling.items() if value is not None}
    set_fields |= select_extras(options, EXTRA_OPTIONS, ())
    return {**set_fields, "stop": options.stop} if options.stop else set_fields


def _parse_context(query: str) -> int:
    settings = dict(parse_qsl(query))
    context = settings.pop("context", str(DEFAULT_CONTEXT))
    if settings or not context.isdecimal() or not MIN_CONTEXT <= int(context) <= MAX_CONTEXT:
        raise Misconfigured(
            f"{query!r} is not a setting of a local model: use context={DEFAULT_CONTEXT}, a number of tokens"
        )
    return int(context)
