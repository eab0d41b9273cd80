"""A replica that starts many runs at once under a budget, and lets its model answer when it is told to.

`budget_replica.py STORE FIRST RUNS TURNS SURPLUS` runs the conversations `c{FIRST}` and so on under a budget for TURNS
turns. The provider counts SURPLUS more tokens for each answer than its limit allows. It prints `asked` for each request
to the model, and `ended ENDING` for each run. A line on its standard input lets the model answer.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator

from toolyard import ModelRequest, ToolyardError, Yard
from toolyard.app import Wiring
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import ModelText, Usage
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.prices import Price

LIMIT = 100


class HeldModel:
    """A model whose answers take as many tokens as it is made with, and wait until they are let go."""

    def __init__(self, output_tokens: int) -> None:
        self._output_tokens = output_tokens
        self.released = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        yield TextAppended(turn=request.turn, offset=0, text="well")
        print("asked", flush=True)
        await self.released.wait()
        text = ModelText(id=request.clock.new_id("item"), at=request.clock.now(), text="well")
        yield TurnEnded(items=(text,), finish="stop", usage=Usage(output_tokens=self._output_tokens))

    async def close(self) -> None:
        return


def build_yard(store: str, turns: int, model: HeldModel) -> Yard:
    wiring = Wiring(
        model=model,
        store=store,
        prices={"given": Price(input=0.0, output=1.0)},
        budgets={"team": BudgetRule(amount=turns * LIMIT / 1_000_000, window="total")},
        reserve_output_tokens=LIMIT,
        grace_s=0.1,
    )
    return Yard.from_wiring(wiring)


async def main(store: str, first: int, runs: int, turns: int, surplus: int) -> None:
    model = HeldModel(LIMIT + surplus)

    async def run(yard: Yard, number: int) -> None:
        try:
            view = await yard.run("go", conversation=f"c{number}").wait_for_rest()
            print(f"ended {view.ending}", flush=True)
        except ToolyardError:  # the database is away: its run goes on when it is back
            print("ended unseen", flush=True)

    async def release() -> None:
        await asyncio.to_thread(sys.stdin.readline)
        model.released.set()

    async with build_yard(store, turns, model) as yard, asyncio.TaskGroup() as tasks:
        tasks.create_task(release())
        for number in range(first, first + runs):
            tasks.create_task(run(yard, number))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
