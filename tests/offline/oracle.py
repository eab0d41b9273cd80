"""Two models to hold the checker and the requests to: one that knows every answer, and one that knows none."""

from collections.abc import Callable, Iterator

from offline.corpus import CorpusRequest, ExpectedCall, Plan
from toolyard.core.items import Call, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.testing import Scripted, Turn, call, say

Change = Callable[[Turn, int], Turn]


class OnlyOk(Scripted):
    """Says ok to everything and does nothing."""

    def __init__(self) -> None:
        super().__init__(lambda _: say("ok 好"))


def oracle(request: CorpusRequest, change: Change = lambda turn, step: turn) -> Scripted:
    """Makes the calls of each exchange's first plan one by one.

    `change` may spoil a turn; it is told which one of the exchange it is.
    """

    def turn(model_request: ModelRequest) -> Turn:
        items = list(model_request.history)
        message_indexes = [at for at, item in enumerate(items) if isinstance(item, UserMessage)]
        exchange = request.exchanges[len(message_indexes) - 1]
        step = sum(isinstance(item, Call) for item in items[message_indexes[-1] :])
        plan = [call for call in flatten_plan(exchange.calls) if call.lookup != "may"]
        if step < len(plan):
            return change(call(plan[step].tool, **first_arguments(plan[step])), step)
        return change(say("Here. 好。"), step)

    return Scripted(turn)


def first_arguments(expected: ExpectedCall) -> dict[str, object]:
    """The first of the ways in which its arguments are right."""
    return next(list_arguments(expected))


def list_arguments(expected: ExpectedCall) -> Iterator[dict[str, object]]:
    """Arguments in which each way of each argument comes up once; those that may be left out are there as well."""
    ways = {name: (*expected.leeway(name).any_of, *expected.leeway(name).holds) for name in expected.arguments}
    first = {name: way[0] for name, way in ways.items()}
    yield first
    for name, way in ways.items():
        yield from ({**first, name: value} for value in way[1:])


def flatten_plan(plan: Plan) -> list[ExpectedCall]:
    return [call for chain in plan for call in chain]
