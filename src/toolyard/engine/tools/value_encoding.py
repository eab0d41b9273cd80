"""Encodes what a tool returned: text as it is, everything else as JSON.

A large value is encoded in pieces, in a thread. The thread alone would not help: a call into the encoder holds the
interpreter lock until it returns, so each call gets a small piece.
"""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import cast

import msgspec
from msgspec import Struct

from toolyard.core.failed_results import to_problem
from toolyard.core.items import Problem

MAX_BYTES = 64 * 1024 * 1024
"""The limit for one result."""
MAX_INLINE_CHARS = 1024 * 1024
MAX_PIECE_CHARS = 256 * 1024
MAX_NODES = 1000
"""A value with more nested values than this is large."""
PIECE_ITEMS = 250
_FLAT = frozenset({int, float, bool, type(None)})


def encode_text(value: object) -> str | Problem:
    """Return a value of ordinary size as the model will read it."""
    try:
        return _replace_surrogates(value) if isinstance(value, str) else _encode_json(value).decode()
    except Exception as error:  # the value's own code may raise anything
        return _build_unwritable_problem(value, error)


def encode_whole(value: object) -> bytes | Problem:
    """Return a value of any size as the model will read it, in UTF-8. Meant to run in a thread."""
    pieces, size = list[bytes](), 0
    try:
        for piece in _text_pieces(value) if isinstance(value, str) else _json_pieces(value):
            size += len(piece)
            if size > MAX_BYTES:
                return _build_too_large_problem(size)
            pieces.append(piece)
    except Exception as error:  # the value's own code may raise anything
        return _build_unwritable_problem(value, error)
    return b"".join(pieces)


def is_large(value: object, max_chars: int = MAX_INLINE_CHARS) -> bool:
    """Return whether a value takes long to encode, without visiting more of it than needed."""
    if type(value) in _FLAT:
        return False
    chars, nodes, pending = 0, 0, [value]
    while pending:
        current = pending.pop()
        nodes += 1
        if isinstance(current, str | bytes | bytearray):
            chars += len(current)
        elif (parts := _list_parts(current)) is not None:
            nodes += len(parts) if len(parts) > MAX_NODES else 0  # large already: the parts need no visit
            pending += parts if nodes <= MAX_NODES else ()
        if chars > max_chars or nodes > MAX_NODES:
            return True
    return False


def _list_parts(value: object) -> Collection[object] | None:
    """Return the values inside a container, a struct or an object with attributes; None for any other value."""
    if isinstance(value, dict):
        return cast(dict[object, object], value).values()
    if isinstance(value, list | tuple | set | frozenset):
        return cast(Collection[object], value)
    if isinstance(value, Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    fields: object = getattr(value, "__dict__", None)
    return cast(dict[str, object], fields).values() if isinstance(fields, dict) else None


def _text_pieces(text: str) -> Iterator[bytes]:
    for start in range(0, len(text), MAX_PIECE_CHARS):
        yield text[start : start + MAX_PIECE_CHARS].encode("utf-8", "replace")


def _json_pieces(value: object) -> Iterator[bytes]:
    if not is_large(value, MAX_PIECE_CHARS):
        yield _encode_json(value)
    elif isinstance(value, str):
        yield b'"'
        for start in range(0, len(value), MAX_PIECE_CHARS):
            yield _encode_json(value[start : start + MAX_PIECE_CHARS])[1:-1]
        yield b'"'
    elif isinstance(value, dict):
        yield from _object_pieces(cast(dict[object, object], value))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from _array_pieces(cast(Collection[object], value))
    elif isinstance(value, bytes | bytearray):
        yield _encode_json(value)
    else:
        yield from _json_pieces(msgspec.to_builtins(value, enc_hook=_dump_model))


def _object_pieces(pairs: dict[object, object]) -> Iterator[bytes]:
    separator = b"{"
    for name, value in pairs.items():
        yield separator + _encode_json({name: 0})[1:-2]  # `"name":`, as the encoder itself writes a key of this type
        yield from _json_pieces(value)
        separator = b","
    yield b"}"


def _array_pieces(values: Collection[object]) -> Iterator[bytes]:
    remaining, separator = iter(values), b"["
    while chunk := list(islice(remaining, PIECE_ITEMS)):
        if _FLAT.issuperset(map(type, chunk)) or not is_large(chunk, MAX_PIECE_CHARS):
            yield separator + _encode_json(chunk)[1:-1]
        else:
            for value in chunk:
                yield separator
                yield from _json_pieces(value)
                separator = b","
        separator = b","
    yield b"]"


def _encode_json(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=_dump_model)


def _replace_surrogates(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _dump_model(value: object) -> object:
    """Return what `model_dump` of a pydantic model gives. Raises TypeError for any other object."""
    dump = getattr(value, "model_dump", None)
    dumped = dump(mode="json") if callable(dump) else None
    if not isinstance(dumped, dict | list | str | int | float):
        raise TypeError(f"an object of type {type(value).__name__} has no JSON form")
    return cast(object, dumped)


def _build_unwritable_problem(value: object, error: Exception) -> Problem:
    return to_problem(
        f"the tool ran, but its result ({type(value).__name__}) cannot be written as JSON: {error}",
        "execution_error",
        {"hint": "return text, numbers, lists, dicts, dataclasses or models"},
    )


def _build_too_large_problem(size: int) -> Problem:
    return Problem(
        error=f"the tool ran, but its result of over {size:,} bytes is more than the {MAX_BYTES:,} that can be kept; "
        "ask for less, or have the tool return a link",
        error_type="too_large",
    )
