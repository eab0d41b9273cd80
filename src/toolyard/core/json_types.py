"""The types of decoded JSON values."""

from typing import TypeGuard

Json = dict[str, object]


def is_object(value: object) -> TypeGuard[Json]:
    """Return whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Return whether a decoded JSON value is a list."""
    return isinstance(value, list)
