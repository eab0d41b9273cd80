"""Two models to hold the checker and the requests to: one that knows every answer, and one that knows none."""

from collections.abc import Callable, Iterator

from offline.corpus import ExpectedCall, Plan, Request
from toolyard import Scripted, call, say
from toolyard.core.items import Call, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.models.scripted import Turn

Change = Callable[[Turn, int], Turn]


class OnlyOk(Scripted):
    """Says ok to everything and does nothing."""

    def __init__(self) -> None:
        super().__init__(lambda _: say("ok 好"))


def oracle(request: Request, change: Change = lambda turn, step: turn) -> Scripted:
    """Makes the calls of each exchange's first plan one by one.

    `change` may spoil a turn; it is told which one of the exchange it is.
    """

    def turn(asked: ModelRequest) -> Turn:
        items = list(asked.history)
        said = [at for at, item in enumerate(items) if isinstance(item, UserMessage)]
        exchange = request.exchanges[len(said) - 1]
        step = sum(isinstance(item, Call) for item in items[said[-1] :])
        plan = [one for one in calls_of(exchange.calls) if one.lookup != "may"]
        if step < len(plan):
            return change(call(plan[step].tool, **sample(plan[step])), step)
        return change(say("Here. 好。"), step)

    return Scripted(turn)


def sample(expected: ExpectedCall) -> dict[str, object]:
    """The first of the ways in which its arguments are right."""
    return next(samples(expected))


def samples(expected: ExpectedCall) -> Iterator[dict[str, object]]:
    """Arguments in which each way of each argument comes up once; those that may be left out are there as well."""
    ways = {name: (*expected.leeway(name).any_of, *expected.leeway(name).holds) for name in expected.arguments}
    first = {name: way[0] for name, way in ways.items()}
    yield first
    for name, way in ways.items():
        yield from ({**first, name: value} for value in way[1:])


def calls_of(plan: Plan) -> list[ExpectedCall]:
    return [one for chain in plan for one in chain]
