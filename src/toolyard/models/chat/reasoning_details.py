"""OpenRouter's `reasoning_details`: streamed in pieces, and sent back merged. Pure.

Models behind OpenRouter that sign their reasoning refuse a call without the reasoning before it, or with it in pieces.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from toolyard.core.items import Call, Item, Reasoning

Detail = dict[str, object]
_STREAMED_FIELDS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The types that are streamed in pieces, and the field with the text of each; any other arrives whole."""


class _SignedDetails(Struct):
    model: str
    details: list[Detail]


_decode = msgspec.json.Decoder(_SignedDetails).decode


def parse_details(value: object) -> list[Detail]:
    """Return the details in a field of that name; none if a provider uses it for something else."""
    try:
        return msgspec.convert(value, list[Detail])
    except msgspec.ValidationError:
        return []


def encode_signature(pieces: Iterable[Detail], model: str) -> str:
    """Return the signature to keep of the reasoning: its details with the model's name; empty if there are none."""
    details = _merge_pieces(pieces)
    return msgspec.json.encode(_SignedDetails(model, details)).decode() if details else ""


def collect_details(group: Sequence[Item], provider: str, model: str) -> list[Detail]:
    """Return the details of this model's reasoning in a group.

    A detail may name a call by the provider's id. Calls are sent with Toolyard's ids, so those replace it here.
    """
    ids: dict[object, str] = {
        item.provider_id: item.id for item in group if isinstance(item, Call) and item.provider_id
    }
    signatures = [item.signature for item in group if isinstance(item, Reasoning) and item.provider == provider]
    details = [detail for signature in signatures for detail in _decode_signature(signature, model)]
    return [{**detail, "id": ids[detail["id"]]} if detail.get("id") in ids else detail for detail in details]


def _merge_pieces(pieces: Iterable[Detail]) -> list[Detail]:
    """Merge adjacent pieces of one type and index: texts are joined, and later values of other fields win."""
    merged: list[Detail] = []
    for piece in pieces:
        field, key = _STREAMED_FIELDS.get(str(piece.get("type"))), (piece.get("type"), piece.get("index"))
        last = merged[-1] if merged else {}
        if field is None or key[1] is None or key != (last.get("type"), last.get("index")):
            merged.append(piece)
            continue
        joined = "".join(text for text in (last.get(field), piece.get(field)) if isinstance(text, str))
        merged[-1] = {**last, **{name: value for name, value in piece.items() if value is not None}, field: joined}
    return merged


def _decode_signature(signature: str, model: str) -> list[Detail]:
    """Return the details in a signature; none if it is another model's or cannot be read."""
    try:
        signed = _decode(signature)
    except msgspec.DecodeError:
        return []
    return signed.details if signed.model == model else []
