"""Every error that Toolyard raises on purpose, and the one that a tool's author raises.

ToolyardError
  + Refused        the command does not fit the state of the conversation (HTTP 409)
  + Invalid        the input is wrong; `details` names each field (HTTP 422)
  + Unauthenticated  nobody is named, or the name cannot be believed (HTTP 401)
  + Forbidden      the caller is known and may not do this (HTTP 403)
  + NotFound       no such conversation, run, call or tool, as far as this caller may know (HTTP 404)
  + RateLimited    too many new requests; `retry_after_s` says when to come again (HTTP 429)
  + Unavailable    this process begins nothing new: it is about to stop (HTTP 503)
  + Misconfigured  the yard was put together wrongly; the message says what to change
  + Fenced         another owner took the conversation over; this one must let go
  + StoreDown      the store cannot be read or written; nothing that was committed is lost
  + Declined       an MCP server answered a request with an error of its own, passed on as it came
  + RunWaiting     `ask` cannot answer: the run waits for a decision or for the application
  + RunFailed      `ask` cannot answer: the run ended as failed
ToolError          raised inside a tool: a failure that the model is told about
"""

from collections.abc import Mapping, Sequence


class ToolyardError(Exception):
    """Base of every error this package raises on purpose."""


class Refused(ToolyardError):
    pass


class Invalid(ToolyardError):
    def __init__(self, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.details: dict[str, object] = dict(details or {})


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


class Unavailable(ToolyardError):
    pass


class Misconfigured(ToolyardError):
    pass


class MissingKey(Misconfigured):
    """A model cannot be used because an environment variable does not hold its key."""

    def __init__(self, model: str, variable: str, hint: str = "") -> None:
        super().__init__(f"{model!r} needs a key: set the environment variable {variable}{hint}")
        self.variable = variable


class Fenced(ToolyardError):
    pass


class StoreDown(ToolyardError):
    """`reason` is the message without the place of the store: what callers of a server may read."""

    def __init__(self, reason: str, *, place: str = "") -> None:
        super().__init__(f"{place}: {reason}" if place else reason)
        self.reason = reason


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
    """A tool's own failure. The model sees the message, the type and the details, and can act on them."""

    def __init__(
        self, message: str, error_type: str = "execution_error", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.error_type = error_type
        self.details: dict[str, object] = dict(details or {})


def install_command(extra: str) -> str:
    """Return how to install an extra of this package. There is no release yet, so that a clone comes first."""
    return f"pip install -e '.[{extra}]' in a clone of Toolyard (once it is released: pip install 'toolyard[{extra}]')"
