"""A program that runs conversations on a SQLite yard and kills itself at the moment it was told to.

Every effect is a line in a file that only grows. It is started again and again on the same database until all is done.
`yard_child.py DATABASE EFFECTS KILL_AT [lie] [programs]`: KILL_AT 0 means never; `lie`, the negative control, marks the
charging tool idempotent although it is not, and KILL_AT then counts its effects alone; with `programs` the model writes
a program that makes the calls.
"""

import asyncio
import os
import signal
import sys

from toolyard import Context, Tool, ToolLike, Yard, tool
from toolyard.core.conversation.events import CallEnded, Entry, RunEnded, RunSuspended
from toolyard.core.errors import Refused
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.testing import Scripted, Turn, call, say, together

CONVERSATIONS = [f"conversation-{number}" for number in range(6)]
TAP = Tool(name="tap", venue="client")


PROGRAM = """
import asyncio

async def attempt(work):
    try:
        return await work
    except RuntimeError as error:
        return f"failed: {error}"

first = await attempt(charge(amount=1))
work = [charge(amount=2), lookup(), confirm(), charge(amount=4)]
second = await asyncio.gather(*[attempt(each) for each in work])
third = [await attempt(charge(amount=amount)) for amount in (5, 6)]
[first, second, third, await attempt(confirm())]
"""


class Moments:
    """Counts what happens, and ends the process without a word at the chosen moment."""

    def __init__(self, effects: str, kill_at: int, *, only: str = "") -> None:
        self._file = os.open(effects, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._left = kill_at
        self._only = only
        """Count only the moments that are noted with this word; empty for all."""

    def note(self, *words: str) -> None:
        os.write(self._file, (" ".join(words) + "\n").encode())
        self.count_down(words[0])

    def count_down(self, word: str = "") -> None:
        if self._only and word != self._only:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def script(request: ModelRequest) -> Turn:
    done = sum(isinstance(item, Result) for item in request.history)
    if done == 0:
        return together(call("charge", amount=1), call("lookup"), call("confirm"), call("tap"))
    return call("charge", amount=2) if done == 4 else say("all done")


def program_script(request: ModelRequest) -> Turn:
    done = sum(isinstance(item, Result) for item in request.history)
    return say("all done") if done else call("run_code", code=PROGRAM)


def tools(moments: Moments, *, falsely_idempotent: bool) -> list[ToolLike]:
    @tool(idempotent=falsely_idempotent)
    async def charge(amount: int, context: Context) -> str:
        """An effect that must not happen twice."""
        moments.note("TOOL", context.idempotency_key)
        await asyncio.sleep(0.002)
        moments.note("DONE", context.idempotency_key)
        return f"charged {amount}"

    @tool(idempotent=True)
    def lookup(context: Context) -> str:
        """Safe to run again."""
        moments.note("TOOL", context.idempotency_key)
        return "found"

    @tool(approval="ask")
    async def confirm(context: Context) -> str:
        """Asks first, and must not happen twice."""
        moments.note("TOOL", context.idempotency_key)
        return "confirmed"

    return [charge, lookup, confirm]


async def follow(yard: Yard, conversation: str, moments: Moments) -> None:
    """Start the conversation if nobody has; decide what waits; until its run has ended."""
    reader = await yard.follow(conversation)
    if (await yard.service.conversations.view(conversation)).owner is None:
        async for _ in yard.run("go", conversation=conversation, app_tools=[TAP]):
            break
    else:
        await decide(yard, conversation)
    async for item in reader:
        moments.count_down()
        if not isinstance(item, Entry):
            continue
        if isinstance(item.event, CallEnded):
            moments.note("ENDED", f"{conversation}:{item.event.result.call_id}")
        if isinstance(item.event, RunSuspended):
            await decide(yard, conversation)
        if isinstance(item.event, RunEnded):
            break
    reader.detach()


async def decide(yard: Yard, conversation: str) -> None:
    state = await yard.service.conversations.view(conversation)
    for waiting in state.calls_in("asking", "parked"):
        try:
            if waiting.phase == "asking":
                await yard.approve(conversation, waiting.call.id)
            else:
                await yard.deliver(conversation, waiting.call.id, "tapped")
        except Refused:
            continue  # an earlier look at the log made this decision


async def main(database: str, effects: str, kill_at: int, *, falsely_idempotent: bool, programs: bool) -> None:
    moments = Moments(effects, kill_at, only="DONE" if falsely_idempotent else "")
    yard_tools = tools(moments, falsely_idempotent=falsely_idempotent)
    async with (
        asyncio.timeout(60),
        Yard(
            tools=yard_tools,
            model=Scripted(program_script if programs else script),
            store=f"sqlite:///{database}",
            code=programs,
        ) as yard,
        asyncio.TaskGroup() as group,
    ):
        for conversation in CONVERSATIONS:
            group.create_task(follow(yard, conversation, moments))


if __name__ == "__main__":
    asyncio.run(
        main(
            sys.argv[1],
            sys.argv[2],
            int(sys.argv[3]),
            falsely_idempotent="lie" in sys.argv,
            programs="programs" in sys.argv,
        )
    )
