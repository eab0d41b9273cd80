"""llama.cpp in a process of its own: requests come in as lines of JSON, chunks go out as lines. `local.py` starts it.

A process of its own, because loading a model holds up every thread of the one it is loaded in, and because a fault in
native code must not end the server. It ends when whoever started it is gone.
"""

import os
import queue
import secrets
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO, Protocol, cast

import msgspec
import xllamacpp

from toolyard.models.local.lines import LlamaLine, LlamaRequest, LlamaStop


class _ModelFile(Protocol):
    path: str


class _Threads(Protocol):
    n_threads: int


class _Params(Protocol):
    model: _ModelFile
    cpuparams: _Threads
    n_ctx: int
    n_parallel: int
    port: int
    api_keys: list[str]
    ui: bool
    warmup: bool
    verbosity: int


class _LlamaServer(Protocol):
    def handle_chat_completions(
        self, request: dict[str, object], on_chunk: Callable[[dict[str, object]], bool]
    ) -> object: ...


class _Llama(Protocol):
    """What is used of the binding, which has no types."""

    def CommonParams(self) -> _Params: ...  # noqa: N802 - theirs

    def Server(self, params: _Params) -> _LlamaServer: ...  # noqa: N802 - theirs


def load_model(path: str, context: int) -> _LlamaServer:
    """llama.cpp with this model in memory. It listens on a port of this machine, too, behind a key that nobody has."""
    llama = cast("_Llama", cast("object", xllamacpp))
    params = llama.CommonParams()
    params.model.path = path
    params.cpuparams.n_threads = max(1, (os.cpu_count() or 2) - 1)
    params.n_ctx = context
    params.n_parallel = 1
    params.port = 0
    params.api_keys = [secrets.token_hex(16)]
    params.ui = False
    params.warmup = False
    params.verbosity = -1
    return llama.Server(params)


def serve(server: _LlamaServer, lines: BinaryIO, out: BinaryIO) -> None:
    """Answer one request after the other, until no more can come."""
    waiting: queue.Queue[LlamaRequest | None] = queue.Queue()
    stopped: set[int] = set()
    threading.Thread(target=_read_requests, args=(lines, waiting, stopped), daemon=True).start()

    def write_line(line: LlamaLine) -> None:
        out.write(msgspec.json.encode(line) + b"\n")
        out.flush()

    while (asked := waiting.get()) is not None:
        number, body = asked.number, asked.body

        def write_chunk(chunk: dict[str, object], number: int = number) -> bool:
            write_line(LlamaLine(number=number, chunk=chunk))
            return number in stopped

        try:
            if number not in stopped:
                server.handle_chat_completions(body, write_chunk)
        except Exception as error:  # told where it can be read; the next request may go well
            write_line(LlamaLine(number=number, chunk={"error": {"message": f"llama.cpp failed: {error}"}}))
        write_line(LlamaLine(number=number))


def _read_requests(lines: BinaryIO, waiting: "queue.Queue[LlamaRequest | None]", stopped: set[int]) -> None:
    for line in lines:
        order = msgspec.json.decode(line, type=LlamaRequest | LlamaStop)
        if isinstance(order, LlamaStop):
            stopped.add(order.number)
        else:
            waiting.put(order)
    waiting.put(None)
    os._exit(0)  # whatever is generated now, nobody reads it


def main() -> None:
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever the library prints must not come between our lines
    serve(load_model(sys.argv[1], int(sys.argv[2])), sys.stdin.buffer, out)


if __name__ == "__main__":
    main()
