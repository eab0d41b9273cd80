"""Read a request for a response. Pure.

Unknown fields are ignored, since clients send those of other servers, and null means absent.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from toolyard.core.ports import Value
from toolyard.core.settings.models.options import Options
from toolyard.core.tools.trust import join_sources
from toolyard.engine.loop.history_summary import SUMMARY_HEADER
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.openai.content import read_parts, read_text
from toolyard.surfaces.openai.options import (
    ConversationField,
    OptionFields,
    build_options,
    read_conversation_id,
    read_effort,
    read_output_schema,
)
from toolyard.surfaces.openai.responses.compacted import decode_summary
from toolyard.surfaces.openai.responses.declared_tools import DeclaredTools, ResponseTool
from toolyard.surfaces.openai.responses.ids import APPROVAL_ID_PREFIX
from toolyard.surfaces.openai.responses.response import ClientFields
from toolyard.surfaces.openai.responses.tool_kinds import (
    CALL_KINDS,
    OUTPUT_KINDS,
    ToolOutput,
    read_call,
    read_call_id,
    read_hosted_call,
)
from toolyard.surfaces.shared.history import ItemBuilder
from toolyard.surfaces.shared.whole_history.earlier_runs import link_call
from toolyard.surfaces.shared.whole_history.sent_fields import ToolyardFields

MAX_TOOLS, MAX_ITEMS = 128, 20_000
MAX_METADATA, MAX_METADATA_KEY_CHARS, MAX_METADATA_CHARS = 16, 64, 512
OPTION_FIELDS = {
    "output_schema": "text.format",
    "max_tokens": "max_output_tokens",
    "thinking": "reasoning.effort",
    "verbosity": "text.verbosity",
}
"""The names of the fields that options have here, where they differ."""
LOGPROBS = "message.output_text.logprobs"
_IGNORED = ("reasoning", "mcp_list_tools", "mcp_approval_response", "additional_tools")
"""Items of an earlier answer that the history has anyway, or that say nothing to the model."""
LEFT_OUT_KEY = "toolyard.left_out_tools"
"""The key of a response's metadata that names the tools of the request which nobody runs."""


class TextFormat(Struct, kw_only=True):
    type: str = "text"
    name: str = ""
    schema: dict[str, object] | None = None


class TextFields(Struct, kw_only=True):
    format: TextFormat | None = None
    verbosity: str | None = None


class ReasoningFields(Struct, kw_only=True):
    effort: str | None = None
    summary: Annotated[str, Meta(max_length=40)] | None = None
    generate_summary: Annotated[str, Meta(max_length=40)] | None = None
    """The older name of `summary`."""


class ResponseBody(OptionFields, kw_only=True):
    """A request for a response: `input` after the conversation or the response that it goes on from, if any."""

    input: str | Annotated[list[dict[str, object]], Meta(max_length=MAX_ITEMS)] = ""
    model: Annotated[str, Meta(max_length=500)] = "default"
    instructions: Annotated[str, Meta(max_length=100_000)] | None = None
    tools: Annotated[list[ResponseTool], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: object = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    prompt: object = None
    text: TextFields | None = None
    reasoning: ReasoningFields | None = None
    previous_response_id: Annotated[str, Meta(max_length=200)] | None = None
    conversation: str | ConversationField | None = None
    store: bool | None = None
    background: bool | None = None
    generate: bool | None = None
    """False on a WebSocket, to send what the next request goes on from: nothing is started."""
    include: list[str] | None = None
    metadata: dict[str, str] | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    toolyard: ToolyardFields | None = None

    @property
    def conversation_id(self) -> str:
        return read_conversation_id(self.conversation)


def check_metadata(metadata: dict[str, str] | None) -> dict[str, str]:
    """Return the metadata. Raise Invalid if it is too long."""
    texts = metadata or {}
    has_long = any(len(key) > MAX_METADATA_KEY_CHARS or len(text) > MAX_METADATA_CHARS for key, text in texts.items())
    if has_long or len(texts) > MAX_METADATA:
        problem = (
            f"may have {MAX_METADATA} keys of {MAX_METADATA_KEY_CHARS} and texts of {MAX_METADATA_CHARS} characters"
        )
        raise invalid_field("metadata", problem)
    return texts


def read_client_fields(body: ResponseBody, approval_label: str, declared: DeclaredTools) -> ClientFields:
    """Return what a response repeats of its request and the run does not need. Raise Invalid if it is too long."""
    # Clients that repeat the metadata of the response before would name what was left out then.
    metadata = check_metadata({key: text for key, text in (body.metadata or {}).items() if key != LEFT_OUT_KEY})
    if declared.left_out:
        metadata[LEFT_OUT_KEY] = ", ".join(declared.left_out)[:MAX_METADATA_CHARS]
    return ClientFields(
        metadata=metadata,
        previous_response_id=body.previous_response_id or None,
        conversation=body.conversation_id,
        background=bool(body.background),
        parallel_tool_calls=body.parallel_tool_calls is not False,
        approval_label=approval_label,
        reasoning_summary=(body.reasoning.summary or body.reasoning.generate_summary or "") if body.reasoning else "",
        wire_tools=declared.wire_tools,
    )


def read_options(body: ResponseBody) -> Options:
    """Return the options of the request. Raise Invalid for what cannot be done."""
    if body.prompt is not None:
        raise invalid_field("prompt", "cannot be given: the server keeps no prompts of OpenAI; send instructions")
    if body.max_tool_calls is not None:
        raise invalid_field("max_tool_calls", "cannot be given: the server's configuration limits turns and calls")
    answer = (body.text.format if body.text else None) or TextFormat()
    return build_options(
        max_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        output_schema=read_output_schema(answer.type, answer.schema, "text.format"),
        thinking=read_effort(body.reasoning.effort if body.reasoning else None, "reasoning.effort"),
        parallel_tool_calls=body.parallel_tool_calls,
        extra=body.read_extra(verbosity=body.text.verbosity if body.text else None),
    )


def list_unread_fields(body: ResponseBody) -> list[str]:
    """Return the fields of the request that ask for what no response has: the probabilities of its tokens."""
    return [
        *(["top_logprobs"] if body.top_logprobs else []),
        *(["include"] if LOGPROBS in (body.include or ()) else []),
    ]


def list_input(body: ResponseBody) -> list[dict[str, object]]:
    """Return the input as items; none if it is empty."""
    if isinstance(body.input, str):
        return [{"role": "user", "content": body.input}] if body.input else []
    return body.input


def list_outputs(items: Sequence[dict[str, object]]) -> dict[str, Value]:
    """Return the results that an input brings, by the client's ids of the calls. A result may come in several items."""
    outputs: dict[str, ToolOutput] = {}
    for index, item in enumerate(items):
        if kind := OUTPUT_KINDS.get(str(item.get("type"))):
            call_id, output = read_call_id(item, kind, f"input.{index}"), kind.read_output(item, f"input.{index}")
            if earlier := outputs.get(call_id):
                output = ToolOutput(f"{earlier.text}\n{output.text}", (*earlier.parts, *output.parts))
            outputs[call_id] = output
    return {call_id: Value(value=output.text, parts=output.parts) for call_id, output in outputs.items()}


class InputReader:
    """Adds the items of an input to a history: calls that follow one another belong to one message."""

    def __init__(self, skipped: frozenset[str] = frozenset(), *, links_approvals: bool = False) -> None:
        """Leave out the results of the calls with these ids, which are delivered to a run.

        With `links_approvals`, a request for an approval stands in the history as a bare link to its call, which
        `decided_runs` replaces with what was done.
        """
        self._skipped = skipped
        self._links_approvals = links_approvals

    def add(self, builder: ItemBuilder, index: int, item: dict[str, object]) -> None:
        """Add an item. Raise Invalid, with its index, if it does not fit."""
        kind = item.get("type") or "message"
        match kind:
            case "message":
                self._add_message(builder, index, item)
            case str() if kind in CALL_KINDS or kind in OUTPUT_KINDS:
                self._add_call_or_output(builder, index, item)
            case "mcp_call":
                _add_server_call(builder, index, item)
            case "mcp_approval_request":
                self._add_link(builder, index, item)
            case "compaction":
                _add_summary(builder, index, item)
            case _ if kind in _IGNORED:
                return
            case _ if hosted := read_hosted_call(item, f"input.{index}"):
                tool, arguments, output = hosted
                call_id = str(item.get("id") or f"{kind}_{index}")
                builder.add_call(index, (call_id, tool, arguments))
                builder.add_result(index, call_id, output.text, output.parts)
            case _:
                raise invalid_field(f"input.{index}", f"items of the type {str(kind)[:40]!r} are not supported")

    def _add_call_or_output(self, builder: ItemBuilder, index: int, item: dict[str, object]) -> None:
        param, item_type = f"input.{index}", str(item["type"])
        if item_type in CALL_KINDS:
            call = read_call(item, param)
            if call[0] not in self._skipped:
                builder.add_call(index, call)
            return
        kind = OUTPUT_KINDS[item_type]
        call_id = read_call_id(item, kind, param)
        if call_id not in self._skipped:
            output = kind.read_output(item, param)
            builder.add_result(index, call_id, output.text, output.parts)

    def _add_link(self, builder: ItemBuilder, index: int, item: dict[str, object]) -> None:
        if self._links_approvals and not builder.has_open_calls:
            call_id = str(item.get("id")).removeprefix(APPROVAL_ID_PREFIX)
            builder.add(index, "assistant", link_call(f"call_{call_id}"))

    def _add_message(self, builder: ItemBuilder, index: int, item: dict[str, object]) -> None:
        role, content, param = item.get("role"), item.get("content"), f"input.{index}.content"
        if role == "user" and not isinstance(content, str | None):
            builder.add_parts(index, read_parts(content, param))
            return
        builder.add(index, str(role), read_text(content, param))


def _add_summary(builder: ItemBuilder, index: int, item: dict[str, object]) -> None:
    # Anybody can write such an item, so that it counts as a message of the user, and `join_sources` bounds its sources.
    if summary := decode_summary(item.get("encrypted_content")):
        builder.add_summary(index, f"{SUMMARY_HEADER}\n{summary.text}", join_sources(summary.untrusted))


def _add_server_call(builder: ItemBuilder, index: int, item: dict[str, object]) -> None:
    """Add a call that ran on a server, with its result, as the client has them from an earlier answer."""
    if item.get("status") == "in_progress":
        return  # it waited for its approval then: the answer to that has it once more, with its result
    item_id, name = item.get("id"), item.get("name")
    arguments, output = item.get("arguments") or "{}", item.get("output") or item.get("error") or ""
    if not (isinstance(item_id, str) and isinstance(name, str) and name and isinstance(arguments, str)):
        raise invalid_field(f"input.{index}", "an mcp_call needs an id, a name and arguments")
    builder.add_call(index, (item_id, name, arguments))
    builder.add(index, "tool", output if isinstance(output, str) else msgspec.json.encode(output).decode(), (), item_id)
