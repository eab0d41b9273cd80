"""What every driver has in common: requests are lines of JSON on the standard input, answers on the standard output.

The drivers run in `.venv-clients`, with other people's packages and nothing of Toolyard.
"""

import asyncio
import io
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Protocol, TextIO

from pydantic import BaseModel

PHOTO_DOC = "Take a photo of something."


class OrderOutput(BaseModel):
    """What a structured answer has to be."""

    item: str
    count: int


class Answer(BaseModel):
    text: str = ""
    pieces: int = 0
    """How many pieces of text a stream brought."""
    finish: str = ""
    """Why the answer ended, in the words of the client; empty if it does not show that."""
    photos: list[str] = []
    """What the client's tool was called with."""
    order: OrderOutput | None = None
    error: str = ""
    """The type of the client's exception."""
    message: str = ""


class DrivenClient(Protocol):
    """One conversation of a real client, which remembers its messages the way that client's users do."""

    async def ask(self, text: str, *, streamed: bool, has_tool: bool) -> Answer: ...

    async def ask_for_order(self, text: str) -> Answer: ...


class Photos:
    """The tool that runs in the client: `take_photo`."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def take(self, of: str) -> str:
        self.taken.append(of)
        return f"a photo of {of}"


PHOTO_PARAMETERS = {
    "type": "object",
    "properties": {"of": {"type": "string"}},
    "required": ["of"],
    "additionalProperties": False,
}
ORDER_SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["item", "count"],
    "additionalProperties": False,
}


def main(open_client: Callable[..., DrivenClient]) -> None:
    """Answer requests until the input ends. `open_client` takes the address, the API and the model."""
    answers, sys.stdout = sys.stdout, sys.stderr  # some clients print hints
    asyncio.run(_serve(open_client, answers))


async def _serve(open_client: Callable[..., DrivenClient], answers: TextIO) -> None:
    client: DrivenClient | None = None
    print("{}", file=answers, flush=True)  # all packages are loaded
    while line := await asyncio.to_thread(sys.stdin.readline):
        request = json.loads(line)
        if "url" in request:
            client, answer = open_client(**request), Answer()
        elif "program" in request:
            answer = await asyncio.to_thread(_run_program, request["program"])
        else:
            assert client is not None
            answer = await _answer(client, **request)
        print(answer.model_dump_json(), file=answers, flush=True)


async def _answer(client: DrivenClient, *, text: str, streamed: bool, has_tool: bool, wants_order: bool) -> Answer:
    try:
        if wants_order:
            return await client.ask_for_order(text)
        return await client.ask(text, streamed=streamed, has_tool=has_tool)
    except Exception as error:
        traceback.print_exc()
        return Answer(error=type(error).__name__, message=str(error))


def _run_program(program: str) -> Answer:
    """Run a program as `python -c` does, without the seconds that it takes to load the packages. Return its output."""
    with redirect_stdout(io.StringIO()) as output:
        try:
            exec(program, {"__name__": "__main__"})
        except Exception as error:
            traceback.print_exc()
            return Answer(error=type(error).__name__, message=str(error))
    return Answer(text=output.getvalue())


def count(pieces: Sequence[str]) -> int:
    return len([piece for piece in pieces if piece])
