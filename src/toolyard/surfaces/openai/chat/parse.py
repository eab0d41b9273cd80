"""Read a request for a chat completion. Pure.

Unknown fields are ignored, since clients send those of other servers, and null means absent.
"""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from toolyard.core.ports import Value
from toolyard.core.settings.models.options import Options
from toolyard.core.tools.definition import Tool
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.openai.content import read_parts, read_text
from toolyard.surfaces.openai.options import (
    ConversationField,
    JsonSchemaFormat,
    OptionFields,
    build_options,
    read_conversation_id,
    read_effort,
    read_output_schema,
)
from toolyard.surfaces.shared.client_tools import build_client_tool
from toolyard.surfaces.shared.history import ItemBuilder
from toolyard.surfaces.shared.whole_history.sent_fields import ToolyardFields

MAX_TOOLS = 128
MAX_MESSAGES = 20_000


class FunctionCall(Struct, gc=False, kw_only=True):
    name: str = ""
    arguments: str = "{}"


class MessageToolCall(Struct, gc=False, kw_only=True):
    id: str = ""
    type: str = "function"
    function: FunctionCall | None = None


class CompletionMessage(Struct, gc=False, kw_only=True):
    role: str
    content: object = None
    """A text, or parts of text; a user's message may have images and files as well."""
    tool_calls: list[MessageToolCall] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None


class FunctionDefinition(Struct, kw_only=True):
    name: str = ""
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class ToolDefinition(Struct, kw_only=True):
    """A tool that the client runs itself."""

    type: str = "function"
    function: FunctionDefinition | None = None


class ResponseFormat(Struct, kw_only=True):
    type: str = "text"
    json_schema: JsonSchemaFormat | None = None


class StreamOptions(Struct, kw_only=True):
    include_usage: bool | None = None


class CompletionBody(OptionFields, kw_only=True):
    """A request for a chat completion. `messages`, `tools` and the options are those of this request alone."""

    messages: Annotated[list[CompletionMessage], Meta(min_length=1, max_length=MAX_MESSAGES)]
    model: Annotated[str, Meta(max_length=500)] = "default"
    tools: Annotated[list[ToolDefinition], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: object = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: str | None = None
    n: int | None = None
    modalities: list[str] | None = None
    functions: list[object] | None = None
    logprobs: bool | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    verbosity: str | None = None
    prediction: dict[str, object] | None = None
    web_search_options: dict[str, object] | None = None
    """OpenAI's way to ask for web searches; what it says about them is left to the server's configuration."""
    store: bool | None = None
    conversation: str | ConversationField | None = None
    """A conversation of the caller, with `store`: only the messages after the last answer are read."""
    toolyard: ToolyardFields | None = None


def list_option_fields(body: CompletionBody) -> dict[str, str]:
    """Return the names of the fields that options have in this request, where they differ."""
    max_tokens = "max_completion_tokens" if body.max_completion_tokens is not None else "max_tokens"
    return {"output_schema": "response_format", "max_tokens": max_tokens, "thinking": "reasoning_effort"}


def read_conversation(body: CompletionBody) -> str:
    """Return the conversation that a request goes on in; empty if it brings its whole history. Raise Invalid."""
    conversation = read_conversation_id(body.conversation)
    if conversation and not body.store:
        raise invalid_field("conversation", "needs store: true, since the messages are kept in it")
    if conversation and body.toolyard is not None and body.toolyard.server_tools != "all":
        raise invalid_field("toolyard.server_tools", "can be chosen only where a conversation begins")
    return conversation


def find_new_messages(messages: Sequence[CompletionMessage]) -> int:
    """Return the index of the first message after the last answer: a conversation has all that comes before."""
    positions = (index for index in range(len(messages) - 1, -1, -1) if messages[index].role == "assistant")
    return next(positions, -1) + 1


def list_results(messages: Sequence[CompletionMessage], first: int) -> dict[str, Value]:
    """Return the results among the messages from an index on, by the client's ids of their calls."""
    return {
        message.tool_call_id or "": Value(value=read_text(message.content, f"messages.{index}.content"))
        for index, message in enumerate(messages[first:], first)
        if message.role == "tool"
    }


def read_options(body: CompletionBody) -> Options:
    """Return the options of the request. Raise Invalid for what cannot be done."""
    if body.n is not None and body.n != 1:
        raise invalid_field("n", "must be 1: a run has one answer")
    if body.modalities and body.modalities != ["text"]:
        raise invalid_field("modalities", 'must be ["text"]: answers are text')
    if body.functions:
        raise invalid_field("functions", "is OpenAI's old field: send tools")
    answer = body.response_format or ResponseFormat()
    schema = answer.json_schema.schema if answer.json_schema else None
    return build_options(
        max_tokens=body.max_completion_tokens or body.max_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        stop=body.stop,
        seed=body.seed,
        output_schema=read_output_schema(answer.type, schema, "response_format"),
        thinking=read_effort(body.reasoning_effort, "reasoning_effort"),
        parallel_tool_calls=body.parallel_tool_calls,
        extra=body.read_extra(
            frequency_penalty=body.frequency_penalty,
            presence_penalty=body.presence_penalty,
            logit_bias=body.logit_bias or None,
            logprobs=body.logprobs or None,
            top_logprobs=body.top_logprobs if body.logprobs else None,
            verbosity=body.verbosity,
            prediction=body.prediction or None,
        ),
    )


def read_tools(tools: list[ToolDefinition] | None) -> list[Tool]:
    """Return the client's tools. Raise Invalid for a kind of tool that no client can run."""
    return [_read_tool(tool, index) for index, tool in enumerate(tools or ())]


def _read_tool(tool: ToolDefinition, index: int) -> Tool:
    definition = tool.function
    if tool.type != "function" or definition is None:
        raise invalid_field(f"tools.{index}", f"the type {tool.type[:40]!r} is not supported: send functions")
    key = f"tools.{index}.function"
    return build_client_tool(definition.name, definition.description, definition.parameters, key)


def add_completion_message(builder: ItemBuilder, index: int, message: CompletionMessage) -> None:
    """Add a message to the history that is being built. Raise Invalid, with its index, if it does not fit."""
    param = f"messages.{index}.content"
    if message.role == "user" and not isinstance(message.content, str | None):
        builder.add_parts(index, read_parts(message.content, param))
        return
    text = read_text(message.content, param) or message.refusal or ""
    calls = [_read_call(call, index) for call in message.tool_calls or ()]
    builder.add(index, message.role, text, calls, message.tool_call_id or "")


def _read_call(call: MessageToolCall, index: int) -> tuple[str, str, str]:
    if not call.id or call.function is None or not call.function.name:
        raise invalid_field(f"messages.{index}.tool_calls", "a call needs an id and a function with a name")
    return call.id, call.function.name, call.function.arguments
