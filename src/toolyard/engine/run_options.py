"""The options of a request, as keyword arguments that a type checker knows by name and type."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings
from toolyard.core.limits import Limits
from toolyard.core.options import Options
from toolyard.core.tools import Tool
from toolyard.core.web_search import SearchMode


class StartOptions(TypedDict, total=False):
    """The options of a request that are stored with its run. Each one may be left out."""

    correlation_id: str
    """An id that every log line of the request names; a new one if it is left out."""
    tool_choice: str
    """`auto`, `none`, `required`, or the name of the tool to call first."""
    model: str
    """The name of a model in place of the yard's."""
    limits: Limits | None
    web_search: SearchMode
    context: Mapping[str, object]
    """Named values of this request for the model, and for tools as `context.fields`."""
    language: str
    """The language of Toolyard's own messages to the user."""
    settings: Settings | None
    """The settings of the conversation if this request opens it."""
    app_tools: Sequence[Tool]
    """Tools that the application runs: it delivers their results."""
    interrupt: bool
    """Stop the conversation's current run instead of waiting for it."""
    options: Options
    """How the model is to answer: temperature, token limit, output schema …"""
    ends_on_expiry: bool
    """End the run, without another model request, when a call that waits for the application expires."""


class RunOptions(StartOptions, total=False):
    """The keyword arguments of `Yard.run`, `Yard.ask` and `Yard.execute`. Each one may be left out."""

    caller: Caller
    conversation: str
    """The id of a conversation to continue; a new one if it is left out."""
