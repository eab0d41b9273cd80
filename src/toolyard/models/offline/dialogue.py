"""The state between two messages: a proposal, a choice, a question, or values that are being looked up.

It is stored as the signature of a Reasoning item of the provider `offline`: it survives a restart, and is never parsed
from the sentences that people see.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from toolyard.core.failed_results import WITHDRAWN
from toolyard.core.items import Call, Item, Reasoning, Result, UserMessage
from toolyard.models.offline.evidence import Draft
from toolyard.models.offline.parameters import parse_number
from toolyard.models.offline.text import is_question, parse_message

PROVIDER = "offline"
_YES = frozenset({
    "yes", "y", "yep", "yeah", "sure", "ok", "okay", "do it", "go ahead", "confirm", "correct",
    "是", "是的", "好", "好的", "可以", "行", "确认", "对", "对的", "执行",
})  # fmt: skip
_NO = frozenset({
    "no", "n", "nope", "cancel", "stop", "don't", "do not", "never mind", "nevermind", "no thanks", "none",
    "否", "不", "不要", "不用", "不是", "取消", "算了", "不行",
})  # fmt: skip


class Option(Struct, frozen=True):
    """One option of a choice: a label, and the calls that it stands for."""

    label: str
    drafts: tuple[Draft, ...]


class Dialogue(Struct, frozen=True, kw_only=True, omit_defaults=True):
    stage: Literal["lookup", "choose", "ask", "confirm"]
    drafts: tuple[Draft, ...] = ()
    options: tuple[Option, ...] = ()
    parameter: str = ""
    """The parameter that the question asks for, of the first draft."""
    message: str = ""
    """The message that fills the parameters of the tool that is chosen."""
    runs_unasked: bool = False
    """Whether the calls may run without a confirmation once they are complete."""


def encode_dialogue(dialogue: Dialogue, item_id: str, at: float) -> Reasoning:
    signature = msgspec.json.encode(dialogue).decode()
    return Reasoning(id=item_id, at=at, text="", provider=PROVIDER, signature=signature)


def find_dialogue(items: Sequence[Item]) -> Dialogue | None:
    """Return the last state among some items; None if there is none or it cannot be decoded."""
    for item in reversed(items):
        if isinstance(item, Reasoning) and item.provider == PROVIDER:
            try:
                return msgspec.json.decode(item.signature, type=Dialogue)
            except msgspec.DecodeError:
                return None
    return None


def find_open_dialogue(items: Sequence[Item]) -> Dialogue | None:
    """Return the state that the exchange before the last message left open.

    A proposal is open only if its calls were withdrawn by the new message: a decision, an expiry or a stop closes it.
    """
    exchange = get_last_exchange(items)
    dialogue = find_dialogue(exchange)
    if dialogue is None or dialogue.stage == "lookup":
        return None
    results = [item for item in exchange if isinstance(item, Result)]
    if dialogue.stage == "confirm":
        proposed = {item.id for item in exchange if isinstance(item, Call) and item.confirm == "ask"}
        ended = [result for result in results if result.call_id in proposed]
        withdrawn = all(result.error is not None and result.error.error_type == WITHDRAWN for result in ended)
        return dialogue if ended and withdrawn else None
    return dialogue


def get_last_exchange(items: Sequence[Item]) -> Sequence[Item]:
    """Return the items after the user's last message; if the items end with messages, those before them."""
    end = len(items)
    while end and isinstance(items[end - 1], UserMessage):
        end -= 1
    start = end
    while start and not isinstance(items[start - 1], UserMessage):
        start -= 1
    return items[start:end]


def is_yes(message: str) -> bool:
    """Return whether a message agrees; a question (`sure?`) or a quotation does not."""
    return _normalize(message) in _YES and not is_question(message) and parse_message(message).has_plain_marks


def is_no(message: str) -> bool:
    return _normalize(message) in _NO


def find_option(message: str, options: Sequence[Option]) -> Option | None:
    """Return the option that a message names by its number or by its label."""
    bare = _normalize(message)
    number = parse_number(bare.removeprefix("number ").strip("#第个"), whole=True)
    if isinstance(number, int):
        return options[number - 1] if 0 < number <= len(options) else None
    return next((option for option in options if _normalize(option.label) == bare), None)


def _normalize(message: str) -> str:
    text = parse_message(message)
    words = [token.folded if not token.quoted else f"“{token.folded}”" for token in text.tokens]
    return ("" if any(ord(word[0]) > 0x2E80 for word in words) else " ").join(words)
