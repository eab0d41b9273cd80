"""A long history is encoded in steps, so that other tasks run meanwhile, and is sent as it was at the request."""

import asyncio
from itertools import pairwise

import pytest
from msgspec.structs import replace

from toolyard.core.conversation.history import History
from toolyard.core.items import Call, Item, ModelText, Reasoning, Result
from toolyard.core.ports import ModelRequest, WireExchange
from toolyard.models.chat import OpenAIChat
from toolyard.models.gemini import Gemini
from toolyard.models.http_model import HttpModel
from toolyard.models.messages import Anthropic
from toolyard.models.messages.request import CACHE_MARK
from toolyard.models.responses import OpenAIResponses
from toolyard.models.shared.encode_cache import STEP_ITEMS, EncodeCache
from wire.local import NOW, events_of, open_model, request, user

NOBODY = "http://127.0.0.1:1/v1"
each_wire = pytest.mark.parametrize("kind", [OpenAIChat, Anthropic, OpenAIResponses, Gemini])


def build_turns(count: int, name: str = "") -> list[Item]:
    items: list[Item] = []
    for number in range(count):
        call_id = f"c{name}{number}"
        items += [
            user(f"question {number}", f"u{name}{number}"),
            Reasoning(id=f"r{name}{number}", at=NOW, text="Hm."),
            Call(id=call_id, at=NOW, tool="add", arguments={"a": number}),
            Result(id=f"{call_id}.result", at=NOW, call_id=call_id, tool="add", outcome="ok", content="3"),
            ModelText(id=f"t{name}{number}", at=NOW, text=f"answer {number}"),
        ]
    return items


def build_parallel_calls(count: int) -> list[Item]:
    """Return one group of items, which is never split."""
    calls = [Call(id=f"p{number}", at=NOW, tool="add", arguments={}) for number in range(count)]
    return [
        *calls,
        *(
            Result(id=f"{call.id}.result", at=NOW, call_id=call.id, tool="add", outcome="ok", content="3")
            for call in calls
        ),
    ]


class Sending:
    """A request of a model that nobody answers: the body that was sent, and how many items each step had encoded."""

    def __init__(self, kind: type[HttpModel], model_request: ModelRequest) -> None:
        self.kind = kind
        self.exchanges: list[WireExchange] = []
        self.request = replace(model_request, record_exchange=self.exchanges.append, fail_fast=True)
        self.counts = [0]

    @property
    def cache(self) -> EncodeCache | None:
        return next((cache for cache in self.request.memo.values() if isinstance(cache, EncodeCache)), None)

    @property
    def longest_step(self) -> int:
        return max(after - before for before, after in pairwise(self.counts))

    def build_whole_body(self) -> bytes:
        """Return the body as it is encoded at once, without what was encoded before."""
        wire = self.kind.wire
        return wire.encode(replace(self.request, memo={}), "gemini-3-flash", wire.provider, frozenset())

    async def run(self, *, until: int | None = None) -> None:
        """Send the request while another task counts; with `until`, cancel it when so many items are encoded."""
        async with open_model(self.kind(base_url=NOBODY, model="gemini-3-flash")) as model:
            sending = asyncio.ensure_future(events_of(model, self.request))
            while not sending.done():
                await asyncio.sleep(0)
                self.counts.append(self.cache.encodes if self.cache else 0)
                if until is not None and self.counts[-1] >= until:
                    sending.cancel()
            await asyncio.wait([sending])


@each_wire
async def test_no_step_encodes_more_than_its_share(kind: type[HttpModel]) -> None:
    sending = Sending(kind, request([*build_turns(500), user("last", "last")], memo={}))
    await sending.run()
    assert 0 < sending.longest_step <= STEP_ITEMS
    assert sending.counts[-1] == 2_501
    assert [exchange.request for exchange in sending.exchanges] == [sending.build_whole_body()]


@each_wire
async def test_a_group_that_is_longer_than_a_step_is_encoded_whole(kind: type[HttpModel]) -> None:
    group = build_parallel_calls(2 * STEP_ITEMS)
    sending = Sending(kind, request([*build_turns(100), *group, *build_turns(100, "after")], memo={}))
    await sending.run()
    assert len(group) <= sending.longest_step < len(group) + STEP_ITEMS
    assert [exchange.request for exchange in sending.exchanges] == [sending.build_whole_body()]


@each_wire
async def test_items_that_come_between_the_steps_are_not_sent(kind: type[HttpModel]) -> None:
    history = History([*build_turns(500), user("last", "last")])
    sending = Sending(kind, request(history, memo={}))
    expected = sending.build_whole_body()
    running = asyncio.ensure_future(sending.run())
    while sending.counts[-1] == 0:  # noqa: ASYNC110 - right after the first step
        await asyncio.sleep(0)
    assert sending.counts[-1] < len(history)
    longer = history.plus([*build_turns(100, "later"), user("later", "later")])
    other = Sending(kind, request(longer, memo=sending.request.memo))
    await asyncio.gather(running, other.run())  # both extend the same cache, by turns
    assert [exchange.request for exchange in sending.exchanges] == [expected]
    assert b"clater99" in other.build_whole_body()
    # A mark for the provider's cache says where the request before ended, and changes nothing else.
    [sent] = [exchange.request for exchange in other.exchanges]
    assert sent.replace(CACHE_MARK, b"") == other.build_whole_body().replace(CACHE_MARK, b"")


@each_wire
async def test_a_cancelled_request_leaves_what_the_next_one_goes_on_from(kind: type[HttpModel]) -> None:
    history, memo = History([*build_turns(500), user("last", "last")]), dict[str, object]()
    cancelled = Sending(kind, request(history, memo=memo))
    await cancelled.run(until=1_000)
    assert cancelled.exchanges == []
    following = Sending(kind, request(history, memo=memo))
    await following.run()
    assert [exchange.request for exchange in following.exchanges] == [following.build_whole_body()]
    assert following.counts[-1] == 2_501  # nothing was encoded twice
