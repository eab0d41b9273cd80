"""The user's own instructions on each wire: the user's words before the history, whose encoding does not change."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from toolyard.core.conversation.history import History
from toolyard.core.items import ImagePart, Item, ModelText, SystemText, TextPart, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.models.chat.request import to_wire as to_chat
from toolyard.models.gemini.request import to_wire as to_gemini
from toolyard.models.local.prompt import build_messages
from toolyard.models.messages.request import CACHE_MARK
from toolyard.models.messages.request import to_wire as to_messages
from toolyard.models.responses.request import to_wire as to_responses
from toolyard.models.shared.encode_cache import EncodeCache
from wire import strict_chat, strict_gemini, strict_messages, strict_responses
from wire.everything import ADD, HISTORY
from wire.local import NOW, offer, request, user

WORDS = 'Answer in "rhymes".\nKeep 日本.'
Json = dict[str, Any]


@dataclass(frozen=True)
class InstructionsWire:
    to_wire: Callable[[ModelRequest], bytes]
    list_faults: Callable[[bytes], Sequence[str]]
    messages: str
    first: Json
    """The instructions as the body has them."""
    content: str = ""
    """The field of the first message that they are the first part of; empty if they are a message of their own."""
    begins_with_system: bool = False
    """Whether the system text is the first message."""

    def read(self, model_request: ModelRequest) -> tuple[list[Any], Json]:
        """Return the messages of a body, or the parts of the first one and the other messages, and all else."""
        body = self.to_wire(model_request)
        assert self.list_faults(body) == [] or not len(model_request.history)
        fields = json.loads(body.replace(CACHE_MARK, b""))
        messages = fields.pop(self.messages)
        return [*messages[0].pop(self.content), *messages] if self.content else messages, fields


WIRES = {
    "chat": InstructionsWire(
        to_chat, strict_chat.faults_of, "messages", {"role": "user", "content": WORDS}, begins_with_system=True
    ),
    "responses": InstructionsWire(
        to_responses, strict_responses.faults_of, "input", {"role": "user", "content": WORDS}
    ),
    "messages": InstructionsWire(
        to_messages, strict_messages.faults_of, "messages", {"type": "text", "text": WORDS}, "content"
    ),
    "gemini": InstructionsWire(to_gemini, strict_gemini.faults_of, "contents", {"text": WORDS}, "parts"),
}
HISTORIES: dict[str, Sequence[Item]] = {
    "nothing": (),
    "a message": HISTORY[:1],
    "a message with files": HISTORY[2:3],
    "everything": HISTORY,
    "the model begins": HISTORY[4:],
    "an answer alone": HISTORY[4:5],
    "the system begins": HISTORY[1:],
}
each_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


@each_wire
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_instructions_are_the_users_first_words_and_change_nothing_else(
    wire: InstructionsWire, history: Sequence[Item]
) -> None:
    plain, plain_fields = wire.read(request(history, system="You help."))
    messages, fields = wire.read(request(history, system="You help.", instructions=WORDS))
    start = int(wire.begins_with_system)
    assert messages == [*plain[:start], wire.first, *plain[start:]]
    assert fields == plain_fields and WORDS not in str(fields)


@each_wire
def test_the_encoding_of_the_history_is_shared_whatever_the_instructions(wire: InstructionsWire) -> None:
    memo: dict[str, object] = {}
    history = History(HISTORY[:3])
    wire.to_wire(request(history, memo=memo, instructions=WORDS))
    (cache,) = memo.values()
    assert isinstance(cache, EncodeCache)
    before, encodes = bytes(cache.joined), cache.encodes
    longer = history.plus(HISTORY[3:])
    other = wire.to_wire(request(longer, memo=memo, instructions="Use ells."))
    assert list(memo.values()) == [cache]
    assert cache.joined.startswith(before) and b"rhymes" not in cache.joined and b"ells" not in cache.joined
    assert cache.encodes - encodes == len(longer) - len(history)
    unmarked = other.replace(CACHE_MARK, b"")
    assert unmarked == wire.to_wire(request(longer, instructions="Use ells.")).replace(CACHE_MARK, b"")


@each_wire
def test_the_bytes_before_and_of_the_instructions_are_the_same_in_each_turn(wire: InstructionsWire) -> None:
    memo: dict[str, object] = {}
    history, tools, heads = History(HISTORY[:1]), offer(ADD), set[bytes]()
    for item in HISTORY[1:]:
        body = wire.to_wire(request(history, system="You help.", tools=tools, memo=memo, instructions=WORDS))
        heads.add(body[: body.index(json.dumps(WORDS, ensure_ascii=False).encode())])
        history = history.plus((item,))
    assert len(heads) == 1


def test_a_marked_prefix_has_the_instructions_in_it() -> None:
    body = to_messages(request([user("hi")], instructions=WORDS))
    messages = json.loads(body)["messages"]
    assert [block.get("cache_control") for block in messages[0]["content"]] == [None, {"type": "ephemeral"}]


@pytest.mark.parametrize("provider", ["deepseek", "openrouter", "somebody"])
def test_instructions_join_the_first_message_where_roles_may_have_to_alternate(provider: str) -> None:
    def read(*items: Item) -> list[Json]:
        body = to_chat(request(items, system="You help.", instructions=WORDS), provider=provider)
        assert strict_chat.faults_of(body) == []
        return json.loads(body)["messages"][1:]

    look = UserMessage(id="u", at=NOW, parts=(TextPart(text="look"), ImagePart(url="https://example.org/a.png")))
    answer = ModelText(id="t", at=NOW, text="ok")
    assert read(user("hi"), answer)[0] == {"role": "user", "content": f"{WORDS}\n\nhi"}
    (message,) = read(look)
    assert [part.get("text", "") for part in message["content"]] == [WORDS, "look", ""]
    assert [message["role"] for message in read(answer, user("hi"))] == ["user", "assistant", "user"]
    assert read()[0]["content"] == WORDS
    system, blank = SystemText(id="s", at=NOW, text="Be kind."), SystemText(id="b", at=NOW, text="")
    after_system = read(system, blank, user("hi"), answer)
    assert [message["role"] for message in after_system] == ["system", "system", "user", "assistant"]
    assert after_system[2]["content"] == f"{WORDS}\n\nhi"
    assert [message["role"] for message in read(system, answer)] == ["system", "user", "assistant"]
    assert [message["content"] for message in read(system)] == ["Be kind.", WORDS]


def test_a_local_model_reads_instructions_at_the_start_of_the_first_message() -> None:
    system = SystemText(id="s", at=NOW, text="Be kind.")
    messages = build_messages(request([system, user("hi")], system="You help.", instructions=WORDS))
    assert messages == [
        {"role": "system", "content": "You help.\nBe kind."},
        {"role": "user", "content": f"{WORDS}\nhi"},
    ]
    assert build_messages(request([], instructions=WORDS)) == [{"role": "user", "content": WORDS}]
    answer = ModelText(id="t", at=NOW, text="ok")
    roles = [message["role"] for message in build_messages(request([answer], instructions=WORDS))]
    assert roles == ["user", "assistant"]
