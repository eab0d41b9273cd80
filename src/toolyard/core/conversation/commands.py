"""The commands that surfaces submit, and their outcomes. `decide` accepts or refuses them.

A command is plain data, so that it can be stored, sent to the process that owns the conversation, and decided there.
"""

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import Origin, Remember, Reply, RequestKey, RunRequest
from toolyard.core.conversation.settings import AppliedPreset, Settings, SettingsChange
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
from toolyard.core.items import Item, Result

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


class _Command(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="command"):
    by: Caller
    correlation_id: str = ""
    request: RequestKey | None = None
    """The request that the command came with, if it must take effect only once."""
    has_new_key: bool = False
    """Whether the request's key was made up for this command, so that nobody has to look for an earlier request."""


class Start(_Command, frozen=True, kw_only=True, tag="start"):
    """Start a run: with messages for the model, or with calls that run without a model."""

    run_id: str
    input: tuple[Item, ...]
    run: RunRequest = RunRequest()
    may_name_address: bool = False
    """Whether a model may be an address or a file. Only `Yard` sets it: whoever calls the library has opened it."""
    settings: Settings = Settings()
    """The settings of the conversation if this command opens it."""
    chooses_tools: bool = False
    """Whether the request chose the tools in `settings`, so that those of a preset do not replace them."""
    may_open: bool = True
    """Whether the command opens a conversation that does not exist; False for one that may have been deleted since."""
    queue_limit: int = 16
    interrupt: bool = False
    delivers: tuple[Result, ...] = ()
    """Results for all calls of the current run that wait for their client. The new run goes on in its place."""


class Open(_Command, frozen=True, kw_only=True, tag="open"):
    """Open a conversation without a message."""

    settings: Settings = Settings()


class AddMessage(_Command, frozen=True, kw_only=True, tag="add_message"):
    """Add the items of one message: a text, a text with calls, or the result of a call that has none yet."""

    items: tuple[Item, ...]
    settings: Settings = Settings()
    may_open: bool = True
    """As in `Start`."""


class RemoveMessage(_Command, frozen=True, kw_only=True, tag="remove_message"):
    """Remove the items of a message. A call is removed with its result, and a result with its call."""

    ids: frozenset[str]


class Change(_Command, frozen=True, kw_only=True, tag="change"):
    """Change the settings of the conversation."""

    change: SettingsChange
    preset: AppliedPreset | None = None
    """The preset that the change names as the new model, for the runs in line."""
    may_name_address: bool = False
    """As in `Start`."""


class Approve(_Command, frozen=True, kw_only=True, tag="approve"):
    """Approve a call, with edited arguments if given."""

    call_id: str
    arguments: dict[str, object] | None = None
    remember: Remember = "no"
    reason: str = ""


class Deny(_Command, frozen=True, kw_only=True, tag="deny"):
    """Deny a call."""

    call_id: str
    reason: str = ""


class Deliver(_Command, frozen=True, kw_only=True, tag="deliver"):
    """Record the application's results for calls of its tools: all of them, or none."""

    results: tuple[Result, ...]


class Answer(_Command, frozen=True, kw_only=True, tag="answer"):
    """Answer a question that a tool asked."""

    call_id: str
    reply: Reply = "accepted"
    content: dict[str, object] = {}


class Stop(_Command, frozen=True, kw_only=True, tag="stop"):
    """Stop a call, a run, or the current run if neither is named."""

    call_id: str = ""
    run_id: str = ""
    went_on: bool = False
    """Whether the caller has gone on with another message: the run's calls that only they may decide are denied.

    Refused if the run waits for anything else.
    """


class Rewind(_Command, frozen=True, kw_only=True, tag="rewind"):
    """Let the history end with the item `to`, on whatever branch it is; an empty `to` is the beginning."""

    to: str


class Fork(_Command, frozen=True, kw_only=True, tag="fork"):
    """Open a conversation with a copy of another one's items. It is submitted to the new conversation."""

    origin: Origin
    items: tuple[Item, ...]
    settings: Settings = Settings()


class Delete(_Command, frozen=True, kw_only=True, tag="delete"):
    """Delete the conversation with everything that belongs to it, whatever its state."""

    can_be_undone: bool = False
    """Whether it is only hidden at first, so that it can be restored for a while."""


StateCommand = (
    Start | Open | AddMessage | RemoveMessage | Change | Approve | Deny | Deliver | Answer | Stop | Rewind | Fork
)  # fmt: skip
"""A command that is decided on the state of the conversation, by the process that owns it."""
Command = StateCommand | Delete
