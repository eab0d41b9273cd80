"""The commands that surfaces submit. `decide` accepts or refuses them."""

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings, SettingsChange
from toolyard.core.events import Remember, Reply
from toolyard.core.items import Item, Result
from toolyard.core.limits import Limits
from toolyard.core.mcp_client import McpClient
from toolyard.core.notes import Note
from toolyard.core.options import DEFAULT_OPTIONS, Options
from toolyard.core.tools import Tool
from toolyard.core.web_search import SearchMode


class _Command(Struct, frozen=True, kw_only=True):
    by: Caller
    correlation_id: str = ""


class Start(_Command, frozen=True, kw_only=True):
    """Start a run: with messages for the model, or with calls that run without a model."""

    run_id: str
    input: tuple[Item, ...]
    app_tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    model: str = ""
    limits: Limits | None = None
    web_search: SearchMode = ""
    context: dict[str, Note] = {}
    """Named context of this request only."""
    language: str = ""
    settings: Settings = Settings()
    """The settings of the conversation if this command opens it."""
    queue_limit: int = 16
    interrupt: bool = False
    mcp_client: McpClient | None = None
    """The MCP client that makes the request; None for any other client."""
    options: Options = DEFAULT_OPTIONS
    ends_on_expiry: bool = False


class Open(_Command, frozen=True, kw_only=True):
    """Open a conversation without a message."""

    settings: Settings = Settings()


class AddMessage(_Command, frozen=True, kw_only=True):
    """Add the items of one message: a text, a text with calls, or the result of a call that has none yet."""

    items: tuple[Item, ...]
    settings: Settings = Settings()


class RemoveMessage(_Command, frozen=True, kw_only=True):
    """Remove the items of a message. A call is removed with its result, and a result with its call."""

    ids: frozenset[str]


class Change(_Command, frozen=True, kw_only=True):
    """Change the settings of the conversation."""

    change: SettingsChange


class Approve(_Command, frozen=True, kw_only=True):
    """Approve a call, with edited arguments if given."""

    call_id: str
    arguments: dict[str, object] | None = None
    remember: Remember = "no"


class Deny(_Command, frozen=True, kw_only=True):
    """Deny a call."""

    call_id: str
    reason: str = ""


class Deliver(_Command, frozen=True, kw_only=True):
    """Record the application's result for a call of one of its tools."""

    result: Result


class Answer(_Command, frozen=True, kw_only=True):
    """Answer a question that a tool asked."""

    call_id: str
    reply: Reply = "accepted"
    content: dict[str, object] = {}


class Stop(_Command, frozen=True, kw_only=True):
    """Stop a call, a run, or the current run if neither is named."""

    call_id: str = ""
    run_id: str = ""


Command = Start | Open | AddMessage | RemoveMessage | Change | Approve | Deny | Deliver | Answer | Stop
