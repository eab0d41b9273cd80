"""The errors that Toolyard raises on purpose, and ToolError, which authors of tools raise.

ToolyardError
  + Refused        the command does not fit the state of the conversation (HTTP 409)
    + RequestRepeated  a request with the same Idempotency-Key took effect before this one
  + Invalid        the input is wrong; `details` names each field (HTTP 422)
    + Outdated     the value was changed since it was read; `details` has the current one (HTTP 412)
  + Unauthenticated  the request has no valid key or token (HTTP 401)
  + Forbidden      the caller is known and may not do this (HTTP 403)
  + NotFound       the conversation, run, call or tool does not exist for this caller (HTTP 404)
  + RateLimited    too many new requests; `retry_after_s` is the time to wait (HTTP 429)
  + Unavailable    the request cannot be served now, for example while the server is stopping (HTTP 503)
  + Misconfigured  the configuration is wrong; the message says what to change
    + MissingTables  a database must be migrated first
  + Fenced         another owner has claimed the conversation; this one must stop writing
  + StoreDown      the store cannot be read or written; nothing that was committed is lost
  + Declined       an MCP server answered a request with an error, which is passed on unchanged
  + RunWaiting     `ask` has no answer: the run waits for a decision or for the application
  + RunFailed      `ask` has no answer: the run failed
ToolError          raised by a tool: the model is told about the failure
"""

from collections.abc import Mapping, Sequence
from math import ceil


class ToolyardError(Exception):
    """The base of all errors that this package raises on purpose."""


class Refused(ToolyardError):
    pass


class RequestRepeated(Refused):
    pass


class Invalid(ToolyardError):
    def __init__(self, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.details: dict[str, object] = dict(details or {})


class Outdated(Invalid):
    pass


class Unauthenticated(ToolyardError):
    pass


class Forbidden(ToolyardError):
    pass


class NotFound(ToolyardError):
    pass


class RateLimited(ToolyardError):
    def __init__(self, message: str, *, retry_after_s: float, per_minute: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.per_minute = per_minute

    @classmethod
    def after(cls, reason: str, wait_s: float, per_minute: int) -> "RateLimited":
        """Return the error with the whole seconds to wait, also in its message."""
        seconds = max(1, ceil(wait_s))
        return cls(f"{reason}; try again in {seconds} s", retry_after_s=seconds, per_minute=per_minute)


class Unavailable(ToolyardError):
    pass


class Misconfigured(ToolyardError):
    pass


class MissingKey(Misconfigured):
    """A model cannot be used because the environment variable of its key is not set."""

    def __init__(self, model: str, variable: str, hint: str = "") -> None:
        super().__init__(f"{model!r} needs a key: set the environment variable {variable}{hint}")
        self.variable = variable


class MissingTables(Misconfigured):
    """A database lacks tables, or the last changes to them, and may not be migrated now."""


class Fenced(ToolyardError):
    pass


class StoreDown(ToolyardError):
    """The store cannot be used. `reason` is the message without the store's address, for callers of a server."""

    def __init__(self, reason: str, *, address: str = "", may_pass: bool = False) -> None:
        """`may_pass` says of a store that could not be opened that this may succeed later with the same settings."""
        super().__init__(f"{address}: {reason}" if address else reason)
        self.reason = reason
        self.may_pass = may_pass


class Declined(ToolyardError):
    def __init__(self, message: str, *, code: int, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class RunWaiting(ToolyardError):
    def __init__(self, message: str, *, conversation: str, waiting_for: Sequence[str]) -> None:
        super().__init__(message)
        self.conversation = conversation
        self.waiting_for = tuple(waiting_for)


class RunFailed(ToolyardError):
    pass


class ToolError(Exception):
    """A failure that a tool reports. The model sees the message, the type and the details, and can act on them."""

    def __init__(
        self, message: str, error_type: str = "execution_error", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.error_type = error_type
        self.details: dict[str, object] = dict(details or {})


def install_command(extra: str) -> str:
    """Return how to install an extra of this package: from a clone, as there is no release yet."""
    return f"pip install -e '.[{extra}]' in a clone of Toolyard (once it is released: pip install 'toolyard[{extra}]')"
