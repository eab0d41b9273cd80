"""The store of each release opens in this version, with all that it held, and what waited there goes on.

`freeze.py` has written the files.
"""

import gzip
from pathlib import Path

import pytest

from stores.freeze import ANN, ANSWER, FROZEN, LINES, QUESTION, TOOLS, WAITING_ANSWER, WAITING_QUESTION
from toolyard import Yard
from toolyard.core.conversation.events import Entry, RunEnded
from toolyard.core.items import Call, ModelText, Result, UserMessage
from toolyard.core.store import CatalogQuery, ConversationCard
from toolyard.stores.sqlite import SqliteStore
from toolyard.testing import Scripted, say

NAMES = sorted(path.name.removesuffix(".db.gz") for path in FROZEN.glob("*.db.gz"))


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A frozen store, unpacked."""
    file = tmp_path / "toolyard.db"
    file.write_bytes(gzip.decompress((FROZEN / f"{request.param}.db.gz").read_bytes()))
    return file


async def read_cards(path: Path) -> dict[str, ConversationCard]:
    """Return the conversations of ann by title, and check that the key is there."""
    store = await SqliteStore.open(path)
    try:
        assert [(key.name, key.user, key.roles) for key in await store.keys()] == [
            ("ops", "ann", frozenset({"operator"}))
        ]
        return {card.title: card for card in await store.cards(CatalogQuery(tenant="acme", user="ann"))}
    finally:
        await store.close()


def test_the_first_commit_that_was_used_and_a_release_are_frozen() -> None:
    assert {"e946270", "0.2.0"} <= set(NAMES)


async def test_a_frozen_store_keeps_its_conversations_whole_results_and_key(path: Path) -> None:
    cards = await read_cards(path)
    assert sorted(cards) == ["Deliveries", "Orders"]
    async with Yard(tools=TOOLS, model=Scripted([]), store=f"sqlite:///{path}") as yard:
        question, call, result, answer = await yard.history(cards["Deliveries"].id)
        assert isinstance(question, UserMessage) and question.text == QUESTION
        assert isinstance(call, Call) and call.tool == "list_deliveries"
        assert isinstance(answer, ModelText) and answer.text == ANSWER
        assert isinstance(result, Result) and result.handle
        whole = await yard.result(cards["Deliveries"].id, result.handle)
        assert whole is not None and all(line.encode() in whole for line in (LINES[0], LINES[-1]))


async def test_a_call_that_waited_in_a_frozen_store_is_approved_and_its_run_ends(path: Path) -> None:
    conversation = (await read_cards(path))["Orders"].id
    async with Yard(tools=TOOLS, model=Scripted([say(WAITING_ANSWER)]), store=f"sqlite:///{path}") as yard:
        question, call = await yard.history(conversation)
        assert isinstance(question, UserMessage) and question.text == WAITING_QUESTION
        assert isinstance(call, Call) and call.arguments == {"number": 7}
        await yard.approve(conversation, call.id, caller=ANN)
        async for record in await yard.follow(conversation, "0"):
            if isinstance(record, Entry) and isinstance(record.event, RunEnded):
                break
        *_, result, answer = await yard.history(conversation)
        assert isinstance(result, Result) and (result.outcome, result.content) == ("ok", "order 7 is deleted")
        assert isinstance(answer, ModelText) and answer.text == WAITING_ANSWER
