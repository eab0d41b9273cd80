"""What comes in from outside. Whether it is accepted is `decide`'s business."""

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings, SettingsChange
from toolyard.core.events import Remember, Reply
from toolyard.core.items import Item, Result
from toolyard.core.limits import Limits
from toolyard.core.mcp_client import McpClient
from toolyard.core.notes import Note
from toolyard.core.tools import Tool
from toolyard.core.web_search import SearchMode


class _Command(Struct, frozen=True, kw_only=True):
    by: Caller
    correlation_id: str = ""


class Start(_Command, frozen=True, kw_only=True):
    """A request: messages for the model, or calls that somebody makes directly."""

    run_id: str
    input: tuple[Item, ...]
    app_tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    model: str = ""
    limits: Limits | None = None
    web_search: SearchMode = ""
    context: dict[str, Note] = {}
    """Named context of this request alone."""
    language: str = ""
    settings: Settings = Settings()
    """What the conversation is set to if this opens it."""
    queue_limit: int = 16
    interrupt: bool = False
    mcp_client: McpClient | None = None
    """The MCP client that makes the request, if it is one."""


class Open(_Command, frozen=True, kw_only=True):
    """A conversation without a message yet."""

    settings: Settings = Settings()


class AddMessage(_Command, frozen=True, kw_only=True):
    """The items of one message: a text, a text with calls, or the result of a call that has none yet."""

    items: tuple[Item, ...]
    settings: Settings = Settings()


class RemoveMessage(_Command, frozen=True, kw_only=True):
    """The items that make up a message; a call among them takes its result along, and the other way round."""

    ids: frozenset[str]


class Change(_Command, frozen=True, kw_only=True):
    change: SettingsChange


class Approve(_Command, frozen=True, kw_only=True):
    call_id: str
    arguments: dict[str, object] | None = None
    remember: Remember = "no"


class Deny(_Command, frozen=True, kw_only=True):
    call_id: str
    reason: str = ""


class Deliver(_Command, frozen=True, kw_only=True):
    """The application's result for a call that it was handed."""

    result: Result


class Answer(_Command, frozen=True, kw_only=True):
    call_id: str
    reply: Reply = "accepted"
    content: dict[str, object] = {}


class Stop(_Command, frozen=True, kw_only=True):
    """Of one call, of one run, or (neither named) of the run in front."""

    call_id: str = ""
    run_id: str = ""


Command = Start | Open | AddMessage | RemoveMessage | Change | Approve | Deny | Deliver | Answer | Stop
