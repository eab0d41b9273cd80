"""The errors that every store raises in the same words."""

from toolyard.core.errors import RequestRepeated, StoreDown


def build_repeated_error() -> RequestRepeated:
    """Return the error for an entry whose request took effect before."""
    return RequestRepeated("a request with this Idempotency-Key took effect before")


def build_closed_error(address: str = "") -> StoreDown:
    """Return the error for a use of a store that was closed."""
    return StoreDown("the store is closed: open it again", address=address)
