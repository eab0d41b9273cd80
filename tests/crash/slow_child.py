"""Serves a yard as `toolyard serve` does, with a model that stops in the middle of its text until a file is there.

`slow_child.py DATABASE GATE` prints the address.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from toolyard.app import Wiring
from toolyard.core.conversation.events import ModelDelta, ReasoningAppended, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import ModelText, Reasoning
from toolyard.core.ports import ModelRequest
from toolyard.server.serving import serve
from toolyard.yard import Yard

BEFORE, AFTER = ("The tide ", "comes in, "), ("and it ", "goes out.")
THOUGHT = "The sea."


class SlowModel:
    """Streams a thought and half of a text, and the rest once the gate is open."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        yield ReasoningAppended(turn=request.turn, offset=0, text=THOUGHT)
        offset = 0
        for piece in (*BEFORE, *AFTER):
            while piece == AFTER[0] and not self._gate.exists():  # noqa: ASYNC110 - another process opens it
                await asyncio.sleep(0.02)
            yield TextAppended(turn=request.turn, offset=offset, text=piece)
            offset += len(piece)
        clock = request.clock
        thought = Reasoning(id=clock.new_id("item"), at=clock.now(), text=THOUGHT)
        text = ModelText(id=clock.new_id("item"), at=clock.now(), text="".join((*BEFORE, *AFTER)))
        yield TurnEnded(items=(thought, text), finish="stop", model="slow")

    async def close(self) -> None:
        return


def announce(url: str, yard: Yard) -> None:
    print(url, flush=True)


if __name__ == "__main__":
    database, gate = sys.argv[1:]
    serve(Wiring(model=SlowModel(Path(gate)), store=f"sqlite:///{database}", grace_s=0.2), "127.0.0.1", 0, announce)
