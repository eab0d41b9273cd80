"""A Responses server that is as strict as OpenAI's with `store: false`, answers by script, and keeps what it was sent.

It answers 400 to an orphaned call or output, a doubled id, a bad name, an unknown key, a schema it does not take, and
to reasoning that it did not seal, that another model sealed, or that nothing follows.
"""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from models.schema_dialects.dialect_rules import openai_faults, strict_faults
from wire.strict import Reply, StrictServer

PATH = "/responses"
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
REASONS = re.compile(r"o\d|gpt-5(?!-chat)")
SEAL = "sealed:"


class _ResponsesStruct(Struct, forbid_unknown_fields=True):
    pass


class _ResponsesPart(Struct, forbid_unknown_fields=True, tag_field="type"):
    pass


class InputText(_ResponsesPart, tag="input_text"):
    text: str


class InputImage(_ResponsesPart, tag="input_image"):
    image_url: Annotated[str, Meta(pattern="^(https?://|data:image/)")]
    detail: Literal["auto", "low", "high"] = "auto"


class InputFile(_ResponsesPart, tag="input_file"):
    file_data: str = ""
    file_url: str = ""
    filename: str = ""


class ResponsesMessage(_ResponsesStruct):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | Annotated[list[InputText | InputImage | InputFile], Meta(min_length=1)]
    type: Literal["message"] = "message"
    phase: Literal["commentary", "final_answer"] | None = None


class StrictResponsesFunctionCall(_ResponsesStruct):
    type: Literal["function_call"]
    call_id: Annotated[str, Meta(min_length=1, max_length=64)]
    name: str
    arguments: str


class OutputText(_ResponsesStruct, tag_field="type", tag="input_text"):
    text: str


class OutputImage(_ResponsesStruct, tag_field="type", tag="input_image"):
    image_url: str


class FunctionCallOutput(_ResponsesStruct):
    type: Literal["function_call_output"]
    call_id: Annotated[str, Meta(min_length=1, max_length=64)]
    output: str | Annotated[list[OutputText | OutputImage], Meta(min_length=1)]


class Summary(_ResponsesStruct):
    type: Literal["summary_text"]
    text: str


class ReasoningItem(_ResponsesStruct):
    type: Literal["reasoning"]
    id: Annotated[str, Meta(pattern="^rs_")]
    summary: list[Summary]
    encrypted_content: Annotated[str, Meta(min_length=1)]


class SearchCall(_ResponsesStruct):
    type: Literal["web_search_call"]
    id: Annotated[str, Meta(pattern="^ws_")]
    status: Literal["completed", "failed", "incomplete"]
    action: dict[str, object]


class InterpreterCall(_ResponsesStruct):
    type: Literal["code_interpreter_call"]
    id: Annotated[str, Meta(pattern="^ci_")]
    status: Literal["completed", "failed", "incomplete"]
    code: str | None
    container_id: Annotated[str, Meta(pattern="^cntr_")]
    outputs: list[dict[str, object]] | None


class FilesCall(_ResponsesStruct):
    type: Literal["file_search_call"]
    id: Annotated[str, Meta(pattern="^fs_")]
    status: Literal["completed", "failed", "incomplete"]
    queries: list[str]
    results: list[dict[str, object]] | None = None


Hosted = SearchCall | InterpreterCall | FilesCall
InputItem = ResponsesMessage | StrictResponsesFunctionCall | FunctionCallOutput | ReasoningItem | Hosted
KINDS: dict[object, type[InputItem]] = {
    "message": ResponsesMessage,
    "function_call": StrictResponsesFunctionCall,
    "function_call_output": FunctionCallOutput,
    "reasoning": ReasoningItem,
    "web_search_call": SearchCall,
    "code_interpreter_call": InterpreterCall,
    "file_search_call": FilesCall,
}


class FunctionTool(_ResponsesPart, tag="function"):
    name: str
    parameters: dict[str, object]
    strict: bool
    description: str = ""


class Filters(_ResponsesStruct):
    allowed_domains: Annotated[list[str], Meta(min_length=1, max_length=20)]


class ResponsesLocation(_ResponsesStruct):
    type: Literal["approximate"]
    city: str = ""
    region: str = ""
    country: str = ""
    timezone: str = ""


class WebSearchTool(_ResponsesPart, tag="web_search"):
    filters: Filters | None = None
    user_location: ResponsesLocation | None = None


class Container(_ResponsesStruct):
    type: Literal["auto"]


class InterpreterTool(_ResponsesPart, tag="code_interpreter"):
    container: Container


class FilesTool(_ResponsesPart, tag="file_search"):
    vector_store_ids: Annotated[list[str], Meta(min_length=1)]


class ResponsesToolChoice(_ResponsesStruct):
    type: Literal["function"]
    name: str


class OutputFormat(_ResponsesStruct):
    type: Literal["json_schema"]
    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    schema: dict[str, object]
    strict: bool


class TextSettings(_ResponsesStruct):
    format: OutputFormat | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningSettings(_ResponsesStruct):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=16)
]


class StrictResponsesBody(_ResponsesStruct):
    model: Annotated[str, Meta(min_length=1)]
    stream: Literal[True]
    store: Literal[False]
    input: Annotated[list[dict[str, object]], Meta(min_length=1)]
    instructions: str = ""
    include: list[
        Literal[
            "reasoning.encrypted_content",
            "web_search_call.action.sources",
            "code_interpreter_call.outputs",
            "file_search_call.results",
        ]
    ] = []
    tools: Annotated[list[FunctionTool | WebSearchTool | InterpreterTool | FilesTool], Meta(min_length=1)] | None = None
    tool_choice: Literal["auto", "none", "required"] | ResponsesToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Annotated[int, Meta(ge=1)] | None = None
    max_output_tokens: Annotated[int, Meta(ge=16)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    text: TextSettings | None = None
    reasoning: ReasoningSettings | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority"] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    metadata: Metadata | None = None


def faults_of(body: bytes) -> list[str]:
    """Return why a strict provider refuses this body; empty if it accepts it."""
    try:
        request_body = msgspec.json.decode(body, type=StrictResponsesBody)
        items = [msgspec.convert(item, KINDS[item.get("type", "message")]) for item in request_body.input]
    except KeyError as error:
        return [f"Invalid value: {error.args[0]!r} is no type of an input item"]
    except (msgspec.DecodeError, UnicodeError) as error:
        return [str(error)]
    faults = [*_pairing_faults(items), *_reasoning_faults(items, request_body.model), *_tool_faults(request_body)]
    faults += [fault for item in items for fault in _item_faults(item)]
    if "reasoning.encrypted_content" in request_body.include and not REASONS.match(request_body.model):
        faults.append("Encrypted content is not supported with this model.")
    return faults


def _pairing_faults(items: Sequence[InputItem]) -> list[str]:
    faults: list[str] = []
    calls = [item.call_id for item in items if isinstance(item, StrictResponsesFunctionCall)]
    faults += [f"call id {call_id!r} is used twice" for call_id in _find_duplicates(calls)]
    ids = [item.id for item in items if isinstance(item, ReasoningItem | Hosted)]
    faults += [f"Duplicate item found with id {item_id}" for item_id in _find_duplicates(ids)]
    waiting: list[str] = []
    for item in items:
        if isinstance(item, StrictResponsesFunctionCall):
            waiting.append(item.call_id)
        elif isinstance(item, FunctionCallOutput):
            if item.call_id in waiting:
                waiting.remove(item.call_id)
            else:
                faults.append(f"No tool call found for function call output with call_id {item.call_id}.")
        elif isinstance(item, ResponsesMessage) and item.role != "assistant":
            faults += [f"No tool output found for function call {call_id}." for call_id in waiting]
            waiting = []
    return faults + [f"No tool output found for function call {call_id}." for call_id in waiting]


def _reasoning_faults(items: Sequence[InputItem], model: str) -> list[str]:
    faults: list[str] = []
    for number, item in enumerate(items):
        if not isinstance(item, ReasoningItem):
            continue
        after = next((other for other in items[number + 1 :] if not isinstance(other, ReasoningItem)), None)
        follows = isinstance(after, StrictResponsesFunctionCall | Hosted) or (
            isinstance(after, ResponsesMessage) and after.role == "assistant"
        )
        if not follows:
            faults.append(f"Item '{item.id}' of type 'reasoning' was provided without its required following item.")
        if item.encrypted_content != f"{SEAL}{model}:{item.id}":
            faults.append(f"The encrypted content for item {item.id} could not be verified.")
    return faults


def _item_faults(item: InputItem) -> list[str]:
    if isinstance(item, StrictResponsesFunctionCall):
        return _call_faults(item)
    if isinstance(item, SearchCall) and item.action.get("type") not in ("search", "open_page", "find_in_page"):
        return ["a web search call needs an action"]
    return _message_faults(item) if isinstance(item, ResponsesMessage) else []


def _call_faults(call: StrictResponsesFunctionCall) -> list[str]:
    faults = [] if NAME.fullmatch(call.name) else [f"bad tool name {call.name!r} in a call"]
    try:
        if not isinstance(json.loads(call.arguments), dict):
            faults.append("arguments are not an object")
    except ValueError:
        faults.append("arguments are not JSON")
    return faults


def _message_faults(message: ResponsesMessage) -> list[str]:
    faults: list[str] = []
    if message.phase and message.role != "assistant":
        faults.append("only an assistant message has a phase")
    if message.role == "assistant" and not isinstance(message.content, str):
        faults.append("an assistant message holds no input")
    files = [part for part in message.content if isinstance(part, InputFile)]
    if any(bool(part.file_url) == bool(part.file_data) for part in files):
        faults.append("a file needs file_data or file_url")
    if any(part.file_data and not part.filename for part in files):
        faults.append("file_data needs a filename")
    return faults


def _tool_faults(request_body: StrictResponsesBody) -> list[str]:
    functions = [tool for tool in request_body.tools or () if isinstance(tool, FunctionTool)]
    names = [tool.name for tool in functions]
    faults = [f"bad tool name {name!r}" for name in names if not NAME.fullmatch(name)]
    faults += [f"tool name {name!r} is used twice" for name in _find_duplicates(names)]
    for tool in functions:
        rules = strict_faults if tool.strict else openai_faults
        faults += [f"{tool.name}: {fault}" for fault in rules(tool.parameters)]
    if request_body.tool_choice is not None and not request_body.tools:
        faults.append("tool_choice needs tools")
    if request_body.parallel_tool_calls is not None and not request_body.tools:
        faults.append("'parallel_tool_calls' is only allowed when 'tools' are specified")
    if isinstance(request_body.tool_choice, ResponsesToolChoice) and request_body.tool_choice.name not in names:
        faults.append(f"Tool choice 'function' not found: {request_body.tool_choice.name!r} is not offered")
    return faults


def _find_duplicates(names: Sequence[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def strict_responses(*replies: Reply) -> StrictServer:
    return StrictServer(PATH, faults_of, *replies)
