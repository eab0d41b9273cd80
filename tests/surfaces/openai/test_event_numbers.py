"""The numbers of events rise, and a stream that is taken up after any of them goes on exactly there."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from itertools import pairwise

import aiohttp
from hypothesis import example, given, settings, strategies

from support import wait_until
from surfaces.api_client import Json
from surfaces.openai.clients import add_to_groceries, serve_model
from toolyard.core.conversation.events import ModelDelta, ReasoningAppended, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Call, Item, ModelText, Reasoning
from toolyard.core.ports import ModelRequest

Piece = tuple[str, str]
"""`r` for reasoning or `t` for text, and the words."""
DELTAS = {"r": "response.reasoning_text.delta", "t": "response.output_text.delta"}
words = strategies.text("aé🌊 ", min_size=1, max_size=4)
turns = strategies.lists(strategies.tuples(strategies.sampled_from("rt"), words), min_size=1, max_size=5)
runs = strategies.lists(strategies.tuples(turns, strategies.integers(0, 2)), min_size=1, max_size=3)
"""Turns, each with the number of calls of the server's tools that follow; the last one makes none."""


class PiecesModel:
    """Streams the pieces of each turn, and waits in the last one until it is released."""

    def __init__(self, run: Sequence[tuple[Sequence[Piece], int]], pause: int) -> None:
        self._run = [(list(pieces), calls or 1) for pieces, calls in run[:-1]] + [(list(run[-1][0]), 0)]
        self.pause = min(pause, len(run[-1][0]))
        self.entered, self.released = asyncio.Event(), asyncio.Event()
        self._turn = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        (pieces, calls), is_last = self._run[self._turn], self._turn == len(self._run) - 1
        self._turn += 1
        offsets = {"r": 0, "t": 0}
        for index in range(len(pieces) + 1):
            if is_last and index == self.pause:
                self.entered.set()
                await self.released.wait()
            if index < len(pieces):
                kind, text = pieces[index]
                delta = TextAppended if kind == "t" else ReasoningAppended
                yield delta(turn=request.turn, offset=offsets[kind], text=text)
                offsets[kind] += len(text.encode())
        finish = "calls" if calls else "stop"
        yield TurnEnded(items=tuple(self._build_items(request, pieces, calls)), finish=finish, model="pieces")

    def _build_items(self, request: ModelRequest, pieces: Sequence[Piece], calls: int) -> list[Item]:
        clock, items = request.clock, list[Item]()
        for kind, text in pieces:
            item = ModelText if kind == "t" else Reasoning
            items.append(item(id=clock.new_id("item"), at=clock.now(), text=text))
        for _ in range(calls):
            arguments: dict[str, object] = {"item": "milk"}
            items.append(Call(id=clock.new_id("call"), at=clock.now(), tool="add_to_groceries", arguments=arguments))
        return items

    async def close(self) -> None:
        return


def join_shown(pieces: Sequence[Piece]) -> dict[str, str]:
    """Return what a client sees of the pieces of a turn: its text, and the reasoning before it."""
    kinds = [kind for kind, _ in pieces]
    before_text = pieces[: kinds.index("t")] if "t" in kinds else pieces
    return {
        "t": "".join(text for kind, text in pieces if kind == "t"),
        "r": "".join(text for _, text in before_text),
    }


def join_deltas(events: Sequence[Json], kind: str) -> str:
    return "".join(event["delta"] for event in events if event["type"] == DELTAS[kind])


def merge_deltas(events: Sequence[Json]) -> list[Json]:
    """Return the events with the deltas of each item as one, since another reader may get them in other pieces."""
    merged: list[Json] = []
    for event in events:
        fields = {name: value for name, value in event.items() if name != "response"}
        is_delta = event["type"] in DELTAS.values()
        if is_delta and merged and (merged[-1]["type"], merged[-1].get("item_id")) == (event["type"], event["item_id"]):
            merged[-1] = {**fields, "delta": merged[-1]["delta"] + event["delta"]}
        else:
            merged.append(fields)
    return merged


async def read(url: str, events: list[Json], body: Json = None) -> None:
    """Add the events of a stream as they come."""
    async with (
        aiohttp.ClientSession() as session,
        session.request("POST" if body else "GET", url, json=body) as response,
    ):
        assert response.status == 200, await response.text()
        async for line in response.content:
            if line.startswith(b"data: {"):
                events.append(json.loads(line.removeprefix(b"data: ")))


async def check_run(run: Sequence[tuple[Sequence[Piece], int]], pause: int) -> None:
    model = PiecesModel(run, pause)
    async with serve_model(model, [add_to_groceries]) as served, asyncio.TaskGroup() as tasks:
        url, live = f"{served.url}/v1/responses", list[Json]()
        reading = tasks.create_task(read(url, live, {"input": "Hello", "model": "default", "stream": True}))
        await model.entered.wait()
        shown = [join_shown(pieces) for pieces, _ in run[:-1]] + [join_shown(run[-1][0][: model.pause])]
        expected = {kind: "".join(turn[kind] for turn in shown) for kind in DELTAS}
        await wait_until(lambda: all(join_deltas(live, kind) == expected[kind] for kind in DELTAS) and bool(live))
        seen, resumed = list(live), list[list[Json]]()
        address = f"{url}/{seen[0]['response']['id']}?stream=true&starting_after="
        for event in seen:  # some while the turn goes on
            resumed.append([])
            tasks.create_task(read(f"{address}{event['sequence_number']}", resumed[-1]))
        while (await served.yard.service.measure_load()).open_streams < 1 + len(seen):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        model.released.set()
        await reading
        for event in live:  # all once it has ended
            resumed.append([])
            await read(f"{address}{event['sequence_number']}", resumed[-1])
    numbers = [event["sequence_number"] for event in live]
    assert all(before < after for before, after in pairwise(numbers)) and numbers[0] == 0 and numbers[-1] < 2**31
    output = live[-1]["response"]["output"]
    for event in live:
        if event["type"] == "response.output_item.done":
            assert output[event["output_index"]]["id"] == event["item"]["id"]
    for after, later in zip([*range(len(seen)), *range(len(live))], resumed, strict=True):
        assert merge_deltas(later) == merge_deltas(live[after + 1 :]), (after, live[after]["type"])


@settings(max_examples=15)
@given(run=runs, pause=strategies.integers(0, 5))
@example(run=[([("t", "a"), ("r", "b"), ("t", "c")], 0)], pause=2)
@example(run=[([("r", "a"), ("r", "é"), ("t", "b")], 0)], pause=2)
@example(run=[([("r", "a")], 2), ([("r", "b"), ("t", "c"), ("r", "d")], 0)], pause=2)
def test_a_stream_goes_on_after_every_number_while_its_turn_goes_on_and_later(
    run: list[tuple[list[Piece], int]], pause: int
) -> None:
    asyncio.run(check_run(run, pause))
