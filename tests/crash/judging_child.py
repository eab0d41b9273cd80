"""A program with a rule that kills the process when it judges a call: `judging_child.py DATABASE direct|model|resume`.

It starts a conversation with a direct call or with a model that calls, or waits for the end of the run. Then it prints
the error type of the call and the run's ending.
"""

import asyncio
import os
import signal
import sys
import time

from toolyard import PolicyRequest, Verdict, Yard, tool
from toolyard.core.conversation.events import CallEnded, Entry, RunEnded
from toolyard.core.items import Call
from toolyard.core.ports import ModelRequest
from toolyard.testing import Scripted, Turn, call, say


@tool
def work() -> str:
    """Does something."""
    return "done"


def kill_in_judgement(request: PolicyRequest) -> Verdict | None:
    if request.arguments is not None:
        time.sleep(0.3)  # the entries so far are stored meanwhile, as in a judgement that takes long
        os.kill(os.getpid(), signal.SIGKILL)
    return None


def script(request: ModelRequest) -> Turn:
    return say("done") if any(isinstance(item, Call) for item in request.history) else call("work")


async def main(database: str, start: str) -> None:
    store = f"sqlite:///{database}"
    async with Yard(model=Scripted(script), tools=[work], rules=[kill_in_judgement], store=store) as yard:
        if start != "resume":
            direct = Call(id="call_1", at=0.0, tool="work", arguments={})
            await yard.run((direct,) if start == "direct" else "go", conversation="c").result()
        reader = await yard.follow("c")
        async for item in reader:
            match item:
                case Entry(event=CallEnded(result=result)) if result.error:
                    print(result.error.error_type, flush=True)
                case Entry(event=RunEnded(ending=ending)):
                    print(ending, flush=True)
                    return
                case _:
                    pass


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
