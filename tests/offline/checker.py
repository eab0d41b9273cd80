"""Runs a request on a model in a yard of its own and says what came of it.

The clock that the model sees, and the time of each message, is `clock.NOW`; data are fresh for every request. A
proposal is approved or denied as the request says.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime
from typing import Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offline.clock import NOW
from offline.corpus import Chain, CorpusExchange, CorpusRequest, Domain, ExpectedCall, Leeway, Plan
from offline.worlds import world
from toolyard import Caller, Limits, Tool, ToolLike, UserMessage, Yard
from toolyard.core.conversation.events import ModelDelta, RunEnded, RunSuspended, TurnEnded, TurnFailed
from toolyard.core.items import Call, ModelText, TextPart
from toolyard.core.ports import Clock, Model, ModelRequest
from toolyard.models.offline.dialogue import Dialogue, find_dialogue
from toolyard.venues.function import as_tool

TIMEOUT_S = 30
MAX_TURNS = 12
Reason = Literal["ending", "calls", "arguments", "order", "answer"]
Outcome = Literal["ran", "proposed", "to edit", "offered", "asked", "wrong", "unsafe"]
"""What became of a request, from best to worst.

ran: the right calls, and nobody had to be asked; also no call where none was wanted
proposed: the right calls, after a confirmation
to edit: the right tools were proposed with a wrong or missing argument in the form
offered: the right tool is among those to choose from
asked: a parameter of the right tool is asked for, or what is meant
unsafe: a changing call ran without a confirmation, and it is none that was wanted
"""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
FORBIDDEN_IN_ANSWERS = ('{"', "[{", "Traceback")
"""No answer to a person is JSON or a programmer's word."""


class CheckFault(Struct, frozen=True):
    reason: Reason
    summary: str
    """Without the request's own words, so that the held half can be scored without being read."""
    detail: str = ""


class RequestVerdict(Struct, frozen=True, kw_only=True):
    request: CorpusRequest
    faults: tuple[CheckFault, ...]
    answers: tuple[str, ...]
    outcome: Outcome

    @property
    def right(self) -> bool:
        return not self.faults


class ExchangeRecord(Struct, frozen=True, kw_only=True):
    """What came of one message."""

    calls: tuple[Call, ...]
    answer: str
    ending: str
    confirmed_ids: frozenset[str] = frozenset()
    """The calls that somebody was asked about."""
    dialogue: Dialogue | None = None
    """What the last turn left open."""


class _Property(Struct):
    default: object = None


class _Schema(Struct):
    """What the comparison uses of a tool's parameters."""

    properties: dict[str, _Property] = {}


class CorpusClock:
    """The time stands still; ids go on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def new_id(self, prefix: str) -> str:
        return self._clock.new_id(prefix)

    def now(self) -> float:
        return NOW.timestamp()


class FixedTimeModel:
    """A model that is told a fixed time."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        return self._model.stream(replace(request, clock=CorpusClock(request.clock)))

    async def close(self) -> None:
        await self._model.close()


def check(domain: Domain, request: CorpusRequest, model: Callable[[], Model]) -> RequestVerdict:
    """Return the verdict on one request: it is right only if nothing is wrong with any of its exchanges."""
    with world(domain, request.world) as tools:
        try:
            records = asyncio.run(_run_request(request, FixedTimeModel(model()), tools))
        except TimeoutError:
            late = CheckFault("ending", f"it was not done within {TIMEOUT_S} s")
            return RequestVerdict(request=request, faults=(late,), answers=(), outcome="wrong")
        definitions = {tool.definition.name: tool.definition for tool in map(as_tool, tools)}
    exchanges = list(zip(request.exchanges, records, strict=True))
    wrong = [fault for exchange, outcome in exchanges for fault in find_exchange_faults(exchange, outcome, definitions)]
    worst = _pick_worst([judge_outcome(exchange, outcome, definitions) for exchange, outcome in exchanges])
    return RequestVerdict(
        request=request, faults=tuple(wrong), answers=tuple(record.answer for record in records), outcome=worst
    )


def _pick_worst(outcomes: Sequence[Outcome]) -> Outcome:
    return max(outcomes, key=OUTCOMES.index)


async def _run_request(request: CorpusRequest, model: Model, tools: Sequence[ToolLike]) -> list[ExchangeRecord]:
    caller = Caller(user="somebody", roles=request.roles, locale=request.language or "en")
    limits = Limits(turns_per_request=MAX_TURNS)
    async with asyncio.timeout(TIMEOUT_S), Yard(tools=tools, model=model, limits=limits) as yard:
        messages = [
            UserMessage(id=f"item_{number}", at=NOW.timestamp(), parts=(TextPart(text=exchange.message),))
            for number, exchange in enumerate(request.exchanges)
        ]
        return [await _run_exchange(yard, message, caller, request) for message in messages]


async def _run_exchange(yard: Yard, message: UserMessage, caller: Caller, request: CorpusRequest) -> ExchangeRecord:
    calls: list[Call] = []
    answer, ending, dialogue = "", "", None
    confirmed_ids: set[str] = set()
    run = yard.run(message, caller=caller, conversation=f"conversation_{request.id}")
    async for event in run:
        match event:
            case TurnEnded(items=items):
                calls += [item for item in items if isinstance(item, Call)]
                answer = "".join(item.text for item in items if isinstance(item, ModelText))
                dialogue = find_dialogue(items)
            case RunSuspended(waiting_for=waiting_for):
                confirmed_ids.update(waiting_for)
                for call_id in waiting_for:
                    decide = yard.approve if request.approve else yard.deny
                    await decide(run.conversation, call_id, caller=caller)
            case RunEnded() as ended:
                ending = ended.ending if ended.ending != "failed" else f"failed: {ended.detail}"
            case _:
                pass
    return ExchangeRecord(
        calls=tuple(calls), answer=answer, ending=ending, confirmed_ids=frozenset(confirmed_ids), dialogue=dialogue
    )


def find_exchange_faults(exchange: CorpusExchange, record: ExchangeRecord, tools: dict[str, Tool]) -> list[CheckFault]:
    if record.ending != "done":
        return [CheckFault("ending", "the run did not end well", f"{exchange.message!r} ended as {record.ending}")]
    plan_faults = [_find_plan_fault(*_drop_extra_lookups(plan, record.calls), tools) for plan in exchange.plans()]
    wrong = [] if None in plan_faults else [fault for fault in plan_faults[:1] if fault]
    return wrong + _find_answer_faults(record.answer)


def judge_outcome(exchange: CorpusExchange, record: ExchangeRecord, tools: dict[str, Tool]) -> Outcome:
    expected_calls = [expected_call for plan in exchange.plans() for chain in plan for expected_call in chain]
    unconfirmed_calls = [
        call for call in record.calls if call.id not in record.confirmed_ids and not tools[call.tool].read_only
    ]
    if any(
        not any(_fits(expected_call, call, tools) for expected_call in expected_calls) for call in unconfirmed_calls
    ):
        return "unsafe"
    if not find_exchange_faults(exchange, record, tools):
        return "proposed" if record.confirmed_ids else "ran"
    names = {expected_call.tool for expected_call in expected_calls}
    dialogue = record.dialogue
    if dialogue is not None and dialogue.stage == "choose":
        offered_tools = {draft.tool for option in dialogue.options for draft in option.drafts}
        return "offered" if offered_tools & names else "asked" if not names and not record.calls else "wrong"
    if dialogue is not None and dialogue.stage == "ask":
        return "asked" if names & {draft.tool for draft in dialogue.drafts} else "wrong"
    proposed_tools = {call.tool for call in record.calls if call.id in record.confirmed_ids}
    return "to edit" if proposed_tools and proposed_tools <= names else "wrong"


def _drop_extra_lookups(plan: Plan, calls: Sequence[Call]) -> tuple[Plan, list[Call]]:
    """Without the look-ups that were not made and need not be; of those made again, the first."""
    called_tools = {call.tool for call in calls}
    needed_plan = tuple(
        tuple(
            expected_call
            for expected_call in chain
            if expected_call.lookup != "may" or expected_call.tool in called_tools
        )
        for chain in plan
    )
    lookups = {expected_call.tool for chain in needed_plan for expected_call in chain if expected_call.lookup}
    again = {at for at, call in enumerate(calls) if call.tool in {before.tool for before in calls[:at]} & lookups}
    return needed_plan, [call for at, call in enumerate(calls) if at not in again]


def _find_plan_fault(plan: Plan, calls: Sequence[Call], tools: dict[str, Tool]) -> CheckFault | None:
    expected_calls = [call for chain in plan for call in chain]
    detail = f"wanted {_list_calls(plan)}, got {[(call.tool, call.arguments) for call in calls]}"
    if sorted(call.tool for call in expected_calls) != sorted(call.tool for call in calls):
        names = f"{[call.tool for call in expected_calls]}, not {[call.tool for call in calls]}"
        return CheckFault("calls", f"it had to call {names}", detail)
    remaining = list(expected_calls)
    for call in calls:
        fits = next((expected_call for expected_call in remaining if _fits(expected_call, call, tools)), None)
        if fits is None:
            return CheckFault("arguments", f"wrong arguments for {call.tool}", detail)
        remaining.remove(fits)
    return None if _in_order(plan, calls, tools) else CheckFault("order", "the right calls in a wrong order", detail)


def _in_order(plan: Plan, calls: Sequence[Call], tools: dict[str, Tool]) -> bool:
    """Whether the calls are the chains, each in its order, however they interleave."""
    if not calls:
        return not any(plan)
    for at, chain in enumerate(plan):
        if chain and _fits(chain[0], calls[0], tools):
            remaining: tuple[Chain, ...] = (*plan[:at], chain[1:], *plan[at + 1 :])
            if _in_order(remaining, calls[1:], tools):
                return True
    return False


def _fits(expected: ExpectedCall, call: Call, tools: dict[str, Tool]) -> bool:
    if expected.tool != call.tool or expected.tool not in tools:
        return False
    if expected.lookup:
        return True
    properties = msgspec.convert(tools[expected.tool].parameters, _Schema).properties
    names = expected.arguments.keys() | call.arguments.keys()
    return all(
        _matches(expected.leeway(name), call.arguments.get(name), properties.get(name, _Property()).default)
        for name in names
    )


def _matches(leeway: Leeway, value: object, default: object) -> bool:
    """A value that is empty or equals the default is as good as none, and none as good as the default."""
    if value in (None, "", default):
        may_be_left_out = leeway.optional or any(_same(other, default) for other in leeway.any_of)
        return may_be_left_out or any(_same(other, value) for other in leeway.any_of)
    if any(_same(other, value) for other in leeway.any_of):
        return True
    return isinstance(value, str) and any(part.casefold() in value.casefold() for part in leeway.holds)


def _same(left: object, right: object) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return _normalize(left) == _normalize(right)


def _normalize(value: object) -> object:
    """Times by what they say; texts without regard to case and spaces."""
    if not isinstance(value, str):
        return value
    if re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", value):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return value
    return " ".join(value.casefold().replace("’", "'").split())


def _find_answer_faults(answer: str) -> list[CheckFault]:
    if not answer.strip():
        return [CheckFault("answer", "it said nothing")]
    return [
        CheckFault("answer", "its answer has something that it must not have", f"{word!r} in {answer!r}")
        for word in FORBIDDEN_IN_ANSWERS
        if word in answer
    ]


def _list_calls(plan: Plan) -> list[list[tuple[str, dict[str, object]]]]:
    return [[(call.tool, call.arguments) for call in chain] for chain in plan]
