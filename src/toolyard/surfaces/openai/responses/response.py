"""The object of a response, from the view of its run. Pure."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.conversation.run_view import RunView
from toolyard.core.failed_results import CONTINUED
from toolyard.core.items import Problem, Usage
from toolyard.core.ports import Clock
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.surfaces.http.model_failures import MODEL_ERROR, describe_failure
from toolyard.surfaces.openai.responses.approvals import list_approval_requests
from toolyard.surfaces.openai.responses.ids import encode_response_id
from toolyard.surfaces.openai.responses.output import OutputItem, has_schema, list_output
from toolyard.surfaces.openai.responses.tool_kinds import (
    NAMESPACE,
    WireTool,
    build_reference,
    build_tool,
    find_wire_tool,
)

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
DEFAULT_SAMPLING = 1.0
"""The temperature and the top_p that a response names if its request has none: clients expect numbers."""
FAILED = "server_error"
LENGTH, FILTERED = "max_output_tokens", "content_filter"


class ResponseProblem(Struct, kw_only=True):
    message: str
    code: str = FAILED


class IncompleteReason(Struct, kw_only=True):
    reason: str


class InputTokenCounts(Struct, frozen=True, kw_only=True):
    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokenCounts(Struct, frozen=True, kw_only=True):
    reasoning_tokens: int = 0


class ResponseUsage(Struct, kw_only=True):
    """Tokens of all model requests of the run."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputTokenCounts
    output_tokens_details: OutputTokenCounts = OutputTokenCounts()


class ConversationReference(Struct, kw_only=True):
    id: str


class ResponseObject(Struct, kw_only=True):
    """A response: a run with its answer."""

    id: str
    created_at: int
    status: Status
    model: str
    output: list[OutputItem]
    tools: list[dict[str, object]]
    tool_choice: object
    text: dict[str, object]
    error: ResponseProblem | None = None
    incomplete_details: IncompleteReason | None = None
    instructions: str | None = None
    metadata: dict[str, str] = {}
    parallel_tool_calls: bool = True
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    previous_response_id: str | None = None
    reasoning: dict[str, object] = {}
    store: bool = True
    background: bool = False
    truncation: Literal["disabled"] = "disabled"
    service_tier: str = "default"
    top_logprobs: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    usage: ResponseUsage | None = None
    user: str | None = None
    conversation: ConversationReference | None = None
    completed_at: int | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    object: Literal["response"] = "response"


class ClientFields(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the log keeps of a request for its response alone."""

    metadata: dict[str, str] = {}
    previous_response_id: str | None = None
    conversation: str = ""
    """Set if the request named a conversation."""
    background: bool = False
    parallel_tool_calls: bool = True
    approval_label: str = ""
    """The label of the client's `mcp` tool: approvals are items then. Empty if it declared none."""
    reasoning_summary: str = ""
    """Which summary of the reasoning the client asked for; empty for none."""
    wire_tools: dict[str, WireTool] = {}
    """What the client calls its tools that are no plain functions, by the names of their functions."""


class ResponseTraits(Struct, frozen=True, kw_only=True):
    """What a response repeats of its request and the view of the run does not hold."""

    model: str
    created_at: int
    instructions: str | None = None
    store: bool = True
    fields: ClientFields


def find_status(view: RunView) -> Status:
    """Return the status. A run that waits has given its answer: the calls that its client runs, or a sentence."""
    match view.status:
        case "queued":
            return "queued"
        case "running":
            return "in_progress"
        case "waiting":
            return "completed"
        case "ended":
            return _find_ended_status(view)


def _find_ended_status(view: RunView) -> Status:
    match view.ending:
        case "failed":
            return "failed"
        case "limit":
            return "incomplete"
        case "cancelled":
            return "completed" if view.detail == CONTINUED else "cancelled"
        case _:
            # beside a schema the refusal is a part of its own, and SDKs take only a completed response
            return "incomplete" if view.detail == "refused" and not has_schema(view) else "completed"


def build_problem(problem: Problem) -> ResponseProblem:
    """Return why a response failed, with a code that OpenAI's clients know."""
    code = describe_failure(problem).code
    return ResponseProblem(message=problem.error, code=FAILED if code == MODEL_ERROR else code)


def build_response(view: RunView, traits: ResponseTraits, waiting_text: str = "") -> ResponseObject:
    """Return the response as of now."""
    status = find_status(view)
    request = view.request
    options = request.options if request else None
    problem = view.problem
    fields = traits.fields
    approvals = list_approval_requests(view, fields.approval_label) if fields.approval_label else ()
    reason = FILTERED if view.detail == "refused" else LENGTH
    return ResponseObject(
        id=encode_response_id(view.conversation, view.run_id),
        created_at=traits.created_at,
        status=status,
        model=traits.model,
        output=list_output(view, waiting_text, approvals),
        tools=_list_tools(view),
        tool_choice=_build_tool_choice(view, request.tool_choice if request else "auto"),
        text=_build_text(options or DEFAULT_OPTIONS),
        error=build_problem(problem) if problem else None,
        incomplete_details=IncompleteReason(reason=reason) if status == "incomplete" else None,
        instructions=traits.instructions,
        metadata=fields.metadata,
        parallel_tool_calls=fields.parallel_tool_calls,
        temperature=options.temperature if options and options.temperature is not None else DEFAULT_SAMPLING,
        top_p=options.top_p if options and options.top_p is not None else DEFAULT_SAMPLING,
        max_output_tokens=(options.max_tokens or None) if options else None,
        previous_response_id=fields.previous_response_id,
        reasoning={"effort": options.effort if options else None, "summary": traits.fields.reasoning_summary or None},
        store=traits.store,
        background=fields.background,
        usage=build_usage(view.usage) if status not in ("queued", "in_progress") else None,
        conversation=ConversationReference(id=fields.conversation) if fields.conversation else None,
        user=_get_text(options, "user"),
        prompt_cache_key=_get_text(options, "prompt_cache_key"),
        safety_identifier=_get_text(options, "safety_identifier"),
    )


def build_empty_response(clock: Clock, traits: ResponseTraits) -> ResponseObject:
    """Return a response to a request that starts nothing."""
    view = RunView(run_id=clock.new_id("run"), conversation=clock.new_id("conversation"))
    return replace(build_response(view, traits), status="completed", usage=build_usage(view.usage))


def _get_text(options: Options | None, name: str) -> str | None:
    """Return an extra option that is a text."""
    value = options.extra.get(name) if options else None
    return value if isinstance(value, str) else None


def _build_text(options: Options) -> dict[str, object]:
    verbosity = _get_text(options, "verbosity")
    return {"format": _build_format(options.output_schema), **({"verbosity": verbosity} if verbosity else {})}


def _list_tools(view: RunView) -> list[dict[str, object]]:
    """Return the client's tools as it declared them, but for those that were left out."""
    tools: list[dict[str, object]] = []
    namespaces: dict[str, list[dict[str, object]]] = {}
    for tool in view.request.app_tools if view.request else ():
        wire = find_wire_tool(view, tool.name)
        if wire.namespace and wire.namespace not in namespaces:
            inner = namespaces[wire.namespace] = []
            tools.append({"type": NAMESPACE, "name": wire.namespace, "description": "", "tools": inner})
        namespaces.get(wire.namespace, tools).append(build_tool(wire, tool))
    return tools


def _build_tool_choice(view: RunView, choice: str) -> object:
    return choice if choice in ("auto", "none", "required") else build_reference(find_wire_tool(view, choice))


def _build_format(schema: dict[str, object] | None) -> dict[str, object]:
    if schema is None:
        return {"type": "text"}
    return {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}


def build_usage(usage: Usage) -> ResponseUsage:
    return ResponseUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total,
        input_tokens_details=InputTokenCounts(cached_tokens=usage.cached_tokens),
        output_tokens_details=OutputTokenCounts(reasoning_tokens=usage.reasoning_tokens),
    )
