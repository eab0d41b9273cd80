"""Runs llama.cpp in a process of its own, started by `model`. Requests arrive as lines of JSON, chunks leave as lines.

It is a process because loading a model blocks every thread of its process, and because a fault in native code must not
end the server. It ends when its standard input is closed.
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

from toolyard.models.local.model import LlamaLine, LlamaRequest, LlamaStop


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
    """The part of the binding that is used here; it has no types of its own."""

    def CommonParams(self) -> _Params: ...  # noqa: N802 - theirs

    def Server(self, params: _Params) -> _LlamaServer: ...  # noqa: N802 - theirs


def load_model(path: str, context: int) -> _LlamaServer:
    """Return llama.cpp with this model in memory. It also listens on a local port, behind a random key."""
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
    """Answer one request after the other until the input ends."""
    requests: queue.Queue[LlamaRequest | None] = queue.Queue()
    stopped: set[int] = set()
    threading.Thread(target=_read_requests, args=(lines, requests, stopped), daemon=True).start()

    def write_line(line: LlamaLine) -> None:
        out.write(msgspec.json.encode(line) + b"\n")
        out.flush()

    while (request := requests.get()) is not None:
        number, body = request.number, request.body

        def write_chunk(chunk: dict[str, object], number: int = number) -> bool:
            write_line(LlamaLine(number=number, chunk=chunk))
            return number in stopped

        try:
            if number not in stopped:
                server.handle_chat_completions(body, write_chunk)
        except Exception as error:  # reported as a chunk; the next request may succeed
            write_line(LlamaLine(number=number, chunk={"error": {"message": f"llama.cpp failed: {error}"}}))
        write_line(LlamaLine(number=number))


def _read_requests(lines: BinaryIO, requests: "queue.Queue[LlamaRequest | None]", stopped: set[int]) -> None:
    for line in lines:
        message = msgspec.json.decode(line, type=LlamaRequest | LlamaStop)
        if isinstance(message, LlamaStop):
            stopped.add(message.number)
        else:
            requests.put(message)
    requests.put(None)
    os._exit(0)  # at once, without waiting for llama.cpp to finish an answer that has no reader


def main() -> None:
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep what the library prints on standard output out of the lines
    serve(load_model(sys.argv[1], int(sys.argv[2])), sys.stdin.buffer, out)


if __name__ == "__main__":
    main()
