"""A program whose conversation needs a summary, and that kills itself when it is asked for one.

`long_child.py DATABASE DEADLY`: with DEADLY 0 it does not.
"""

import asyncio
import os
import signal
import sys

from toolyard import Yard
from toolyard.app import Wiring
from toolyard.core.conversation.events import Entry, RunEnded
from toolyard.core.items import Usage, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.engine.loop.history_summary import SUMMARY_PROMPT
from toolyard.testing import Scripted, Turn

WORDS = "word " * 1000
RUNS = 4


async def main(database: str, *, deadly: bool) -> None:
    def script(request: ModelRequest) -> Turn:
        last = request.history[-1]
        if deadly and isinstance(last, UserMessage) and last.text == SUMMARY_PROMPT:
            os.kill(os.getpid(), signal.SIGKILL)
        return Turn(text=(WORDS,), usage=Usage())

    wiring = Wiring(model=Scripted(script), store=f"sqlite:///{database}", windows={"given": 10_000})
    async with asyncio.timeout(30), Yard.from_wiring(wiring) as yard:
        reader, over = await yard.follow("c"), 0
        if (await yard.service.conversations.view("c")).owner is None:
            for _ in range(RUNS):
                await anext(aiter(yard.run(WORDS, conversation="c")))
        async for item in reader:
            over += isinstance(item, Entry) and isinstance(item.event, RunEnded)
            if over == RUNS:
                return


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], deadly=sys.argv[2] == "1"))
