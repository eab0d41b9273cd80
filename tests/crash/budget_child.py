"""Runs conversations under a budget, eight at a time, until it is killed or the budget is used up.

`budget_child.py STORE FIRST` names them `c{FIRST}`, `c{FIRST + 1}` and so on, and prints each name before it begins.
"""

import asyncio
import random
import sys
from collections.abc import AsyncGenerator
from itertools import count

from toolyard import ModelRequest, Yard
from toolyard.app import Wiring
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import ModelText, Usage
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.prices import Price

LIMIT = 100
TOGETHER = 8
BUDGET = BudgetRule(amount=0.5, window="total")


class UnsteadyModel:
    """Answers after a while, with a number of tokens up to the limit that it is sent."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        yield TextAppended(turn=request.turn, offset=0, text="well")
        await asyncio.sleep(random.random() / 50)
        text = ModelText(id=request.clock.new_id("item"), at=request.clock.now(), text="well")
        usage = Usage(input_tokens=1, output_tokens=random.randint(1, LIMIT))
        yield TurnEnded(items=(text,), finish="stop", usage=usage)

    async def close(self) -> None:
        return


def build_yard(store: str) -> Yard:
    """Return a yard on a store, with the budget."""
    wiring = Wiring(
        model=UnsteadyModel(),
        store=store,
        prices={"given": Price(input=1.0, output=1.0)},
        budgets={"team": BUDGET},
        reserve_output_tokens=LIMIT,
        grace_s=0.1,
    )
    return Yard.from_wiring(wiring)


async def main(store: str, first: int) -> None:
    numbers = count(first)
    async with build_yard(store) as yard:

        async def run_until_refused() -> None:
            ending = "done"
            while ending == "done":
                conversation = f"c{next(numbers)}"
                print(conversation, flush=True)
                ending = (await yard.run("go", conversation=conversation).wait_for_rest()).ending

        await asyncio.gather(*(run_until_refused() for _ in range(TOGETHER)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
