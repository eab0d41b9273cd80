"""Answers requests for messages: starts the run of a request, and encodes it."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from litestar import Response
from litestar.response import Stream
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.context.token_estimate import estimate_text_tokens, estimate_tokens
from toolyard.core.items import Item
from toolyard.core.messages_blocks import WIRE, join_system
from toolyard.core.tools.definition import Tool
from toolyard.engine.access.presets import PresetFields
from toolyard.engine.service import Service
from toolyard.surfaces.anthropic.content import MessageReader
from toolyard.surfaces.anthropic.encoder import MessageEncoder, encode_failure
from toolyard.surfaces.anthropic.errors import name_headers
from toolyard.surfaces.anthropic.message import Message, build_message
from toolyard.surfaces.anthropic.parse import (
    OPTION_FIELDS,
    CountBody,
    MessageBody,
    check_fields,
    check_marks,
    list_unread_fields,
    read_native,
    read_options,
    read_search_mode,
    read_system,
    read_tool_choice,
)
from toolyard.surfaces.anthropic.tools import read_tools
from toolyard.surfaces.http.authorization import admit_request
from toolyard.surfaces.http.event_stream import detach_on_disconnect
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.http.sse import build_stream_response
from toolyard.surfaces.shared.history import MAX_BATCH, read_history
from toolyard.surfaces.shared.runs.notices import build_notices
from toolyard.surfaces.shared.whole_history.run_starter import (
    AdmittedRun,
    ParsedRequest,
    RunStarter,
    raise_failure,
    require_beginning,
    stream_delayed,
    stream_run,
    wait_for_rest,
)
from toolyard.surfaces.shared.whole_history.sent_fields import (
    DEFAULT,
    SERVER_TOOLS_FIELD,
    ToolyardFields,
    build_ignored_header,
    read_server_tools,
    resolve_model,
)
from toolyard.tool_index.find_tools_result import estimate_tool_bytes

BETA_HEADER = "anthropic-beta"
SERVER_TOOLS_HEADER = "x-toolyard-server-tools"
"""Says which of the server's tools may run, for clients that cannot add fields: `all`, `none`, or names."""
STREAMED_INPUT_AGENT = "pydantic-ai/"
"""The client that takes the input of an MCP tool's call only as deltas. Most others read it where the call begins."""
MAX_BETAS = 32
BYTES_PER_TOKEN = 4


class TokenCount(Struct, kw_only=True):
    input_tokens: int


async def create_message(
    service: Service, starter: RunStarter, request: HttpRequest, data: MessageBody
) -> Response[Message] | Stream:
    """Return the answer to a request, or the stream of it."""
    context, provider = get_request_context(request.scope), await find_provider(service, request, data.model)
    whole = await _read_request(service, request, data, provider)
    model = service.models.default if data.model == DEFAULT else data.model
    notices = build_notices(service, request)
    ignored = build_ignored_header(service, data.model, whole.options, OPTION_FIELDS, list_unread_fields(data))
    if not data.stream:
        admitted = await starter.start(request, whole)
        with detach_on_disconnect(request.receive, admitted.reader):
            view = await wait_for_rest(service, admitted, context.caller, starter.approval_hold_s)
        raise_failure(view, OPTION_FIELDS)
        body = build_message(view, model, provider, notices.describe_waiting(view))
        return Response(body, headers={**admitted.headers, **ignored})

    def stream(admitted: AdmittedRun) -> AsyncGenerator[bytes, None]:
        encoder = MessageEncoder(
            admitted.view,
            admitted.reader.end,
            model=model,
            provider=provider,
            describe_waiting=notices.describe_waiting,
            streams_mcp_input=request.headers.get("user-agent", "").startswith(STREAMED_INPUT_AGENT),
        )
        return stream_run(admitted, encoder, context.correlation_id, starter.approval_hold_s)

    streamed = await starter.start_streamed(request, whole)
    if isinstance(streamed, AdmittedRun):
        await require_beginning(streamed, OPTION_FIELDS)
        return build_stream_response(stream(streamed), {**streamed.headers, **ignored})
    pieces = stream_delayed(streamed, stream, partial(encode_failure, correlation_id=context.correlation_id))
    return build_stream_response(pieces, {**streamed.headers, **ignored})


async def count_tokens(service: Service, request: HttpRequest, data: CountBody) -> Response[TokenCount]:
    """Estimate the tokens that the first turn of a message would send to the model. Nothing is started."""
    context = get_request_context(request.scope)
    preset = await service.presets.find_named(context.caller, resolve_model(data.model))
    provider = await find_provider(service, request, data.model)
    check_fields(data)
    rate_headers = await admit_request(service, context.caller)
    tokens = await _estimate_items(await _read_items(service, data, provider))
    prompts = (preset.system_prompt if preset else "", service.default_settings.system_prompt)
    tokens += sum(map(estimate_text_tokens, (*prompts, join_system(read_system(data.system)))))
    tools = read_tools(data.tools, provider)
    chosen = _read_server_tools(service, request, data, has_tools=bool(tools))
    tools += _list_server_tools(service, context.caller, chosen, preset)
    body = TokenCount(input_tokens=tokens + sum(map(estimate_tool_bytes, tools)) // BYTES_PER_TOKEN)
    return Response(body, headers=name_headers(context.correlation_id, rate_headers))


async def _estimate_items(items: Sequence[Item]) -> int:
    tokens = 0
    for start in range(0, len(items), MAX_BATCH):
        if start:
            await asyncio.sleep(0)
        tokens += sum(map(estimate_tokens, items[start : start + MAX_BATCH]))
    return tokens


async def find_provider(service: Service, request: HttpRequest, model: str) -> str:
    """Return the provider of a model if it speaks this API, too; else empty. Raise NotFound for an unknown preset."""
    caller = get_request_context(request.scope).caller
    return service.models.find_provider(await service.presets.find_model(caller, resolve_model(model)), WIRE)


def _list_server_tools(
    service: Service, caller: Caller, chosen: frozenset[str] | None, preset: PresetFields | None
) -> list[Tool]:
    """Return the server's tools that a run would have: those of its preset, or the default ones, of the chosen ones."""
    begun_with = preset.tool_names if preset else service.default_settings.tools if chosen is None else None
    limits = [names for names in (chosen, begun_with) if names is not None]
    return [tool for tool in service.tools.list_usable(caller) if all(tool.name in names for names in limits)]


async def _read_items(service: Service, data: CountBody, provider: str) -> Sequence[Item]:
    reader = MessageReader(provider)
    items = await read_history(data.messages, service.clock, reader.add, derives_call_ids=True)
    check_marks(data, reader.marks)
    return items


async def _read_request(service: Service, request: HttpRequest, data: MessageBody, provider: str) -> ParsedRequest:
    check_fields(data)
    tools = read_tools(data.tools, provider)
    betas = [beta.strip() for beta in request.headers.get(BETA_HEADER, "").split(",")][:MAX_BETAS]
    return ParsedRequest(
        items=await _read_items(service, data, provider),
        tools=tools,
        model=data.model,
        tool_choice=read_tool_choice(data.tool_choice),
        options=read_options(data),
        server_tools=_read_server_tools(service, request, data, has_tools=bool(tools)),
        system_prompt=join_system(read_system(data.system)),
        native=read_native(data, provider, [beta for beta in betas if beta]),
        web_search=read_search_mode(data),
        ends_without_client=True,
        option_fields=OPTION_FIELDS,
    )


def _read_server_tools(
    service: Service, request: HttpRequest, data: CountBody, *, has_tools: bool
) -> frozenset[str] | None:
    """Return the server's tools that may run: none beside the client's, unless the request or key says otherwise."""
    caller = get_request_context(request.scope).caller
    chosen, field = data.toolyard.server_tools if data.toolyard else None, SERVER_TOOLS_FIELD
    if chosen is None and (header := request.headers.get(SERVER_TOOLS_HEADER, "").strip()):
        chosen = header if header in ("all", "none") else [name.strip() for name in header.split(",")]
        field = SERVER_TOOLS_HEADER
    if chosen is None:
        chosen = caller.server_tools or ("none" if has_tools else "all")
    return read_server_tools(ToolyardFields(server_tools=chosen), data.model, service, caller, field)
