"""The outcome of a command as data, so that the process that decides it can answer the one that submitted it."""

from msgspec import Struct

from toolyard.core.errors import (
    Fenced,
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    RequestRepeated,
    StoreDown,
    ToolyardError,
    Unavailable,
)

_ERRORS: dict[str, type[ToolyardError]] = {
    "request_repeated": RequestRepeated,
    "refused": Refused,
    "invalid": Invalid,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "unavailable": Unavailable,
    "store_down": StoreDown,
    "fenced": Fenced,
}
_NAMES = {kind: name for name, kind in _ERRORS.items()}


class CommandOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Accepted if `error` is empty; otherwise the kind of error, with its message and details."""

    error: str = ""
    message: str = ""
    details: dict[str, object] = {}

    def raise_error(self) -> None:
        """Raise the error that the command was answered with, if any, as in the process that decided it."""
        if not self.error:
            return
        kind = _ERRORS.get(self.error, Unavailable)
        raise Invalid(self.message, self.details) if kind is Invalid else kind(self.message)


ACCEPTED = CommandOutcome()


def describe_error(error: ToolyardError) -> CommandOutcome:
    """Return the outcome of a command that raised this error."""
    details = error.details if isinstance(error, Invalid) else {}
    message = error.reason if isinstance(error, StoreDown) else str(error)
    return CommandOutcome(error=_NAMES.get(type(error), "unavailable"), message=message, details=details)
