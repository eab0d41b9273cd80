"""Tell what a person has changed in the arguments of a call. Pure.

A browser reads all numbers as 64-bit floats, so that an integer of more than 53 bits comes back as another one. Only
values that no browser would take for the original count as changed, and all others are the original ones.
"""

from typing import cast


def find_edited_arguments(original: dict[str, object], received: dict[str, object]) -> dict[str, object] | None:
    """Return the arguments with a person's changes; None if there are none."""
    return None if _is_same(original, received) else cast("dict[str, object]", _merge(original, received))


def _merge(original: object, received: object) -> object:
    """Return what was received, with each part that is the same as the original one had it."""
    if _is_same(original, received):
        return original
    if isinstance(original, dict) and isinstance(received, dict):
        table, changed = cast("dict[str, object]", original), cast("dict[str, object]", received)
        return {key: _merge(table.get(key), value) for key, value in changed.items()}
    if isinstance(original, list) and isinstance(received, list):
        values, changes = cast("list[object]", original), cast("list[object]", received)
        padded = [*values, *[None] * len(changes)]
        return [_merge(before, after) for before, after in zip(padded, changes, strict=False)]
    return received


def _is_same(original: object, received: object) -> bool:
    match original, received:
        case (bool(), _) | (_, bool()):
            return original is received
        case (int() | float(), int() | float()):
            return _to_float(original) == _to_float(received)
        case (dict(), dict()):
            table, changed = cast("dict[str, object]", original), cast("dict[str, object]", received)
            return table.keys() == changed.keys() and all(_is_same(value, changed[key]) for key, value in table.items())
        case (list(), list()):
            values, changes = cast("list[object]", original), cast("list[object]", received)
            return len(values) == len(changes) and all(map(_is_same, values, changes))
        case _:
            return original == received


def _to_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
