"""OpenRouter's `reasoning_details`: a thought as it is streamed, in pieces, and as it goes back, whole. Pure.

Models behind it that sign their thoughts refuse a call that comes without the thought before it, or with its pieces.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from toolyard.core.items import Call, Item, Reasoning

Detail = dict[str, object]
_STREAMED_FIELDS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The types that come in pieces, and where the words of each are; any other comes whole."""


class _SignedDetails(Struct):
    model: str
    details: list[Detail]


_decode = msgspec.json.Decoder(_SignedDetails).decode


def parse_details(value: object) -> list[Detail]:
    """Whatever else a provider calls so is left alone."""
    try:
        return msgspec.convert(value, list[Detail])
    except msgspec.ValidationError:
        return []


def encode_signature(pieces: Iterable[Detail], model: str) -> str:
    """What is kept of a thought: empty if there is nothing to give back."""
    details = _merge_pieces(pieces)
    return msgspec.json.encode(_SignedDetails(model, details)).decode() if details else ""


def collect_details(group: Sequence[Item], provider: str, model: str) -> list[Detail]:
    """What this model thought in a group, with the calls that it names by the ids that they are sent with."""
    ids: dict[object, str] = {one.provider_id: one.id for one in group if isinstance(one, Call) and one.provider_id}
    thoughts = [item.signature for item in group if isinstance(item, Reasoning) and item.provider == provider]
    details = [detail for thought in thoughts for detail in _decode_signature(thought, model)]
    return [{**detail, "id": ids[detail["id"]]} if detail.get("id") in ids else detail for detail in details]


def _merge_pieces(pieces: Iterable[Detail]) -> list[Detail]:
    """Neighbours of one type and place are one; what else the later one says holds."""
    whole: list[Detail] = []
    for piece in pieces:
        words, place = _STREAMED_FIELDS.get(str(piece.get("type"))), (piece.get("type"), piece.get("index"))
        last = whole[-1] if whole else {}
        if words is None or place[1] is None or place != (last.get("type"), last.get("index")):
            whole.append(piece)
            continue
        said = "".join(text for text in (last.get(words), piece.get(words)) if isinstance(text, str))
        whole[-1] = {**last, **{name: value for name, value in piece.items() if value is not None}, words: said}
    return whole


def _decode_signature(signature: str, model: str) -> list[Detail]:
    """A signature of another model, or one that cannot be read, is none."""
    try:
        thought = _decode(signature)
    except msgspec.DecodeError:
        return []
    return thought.details if thought.model == model else []
