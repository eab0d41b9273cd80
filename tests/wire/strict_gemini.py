"""A generateContent server that is as strict as Google's newest models, answers by script, and keeps what it was sent.

It answers 400 to roles that do not alternate, calls that the next content does not answer one for one, a step whose
first call has no signature or another model's, empty parts, bad names, unknown keys, schema words it does not know, and
to its own tools beside functions where the model does not have both.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta, Struct

from models.schema_dialects.dialect_rules import gemini_faults
from wire.strict import Reply, StrictServer

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
UNSIGNED = "skip_thought_signature_validator"
MODEL = "gemini-3-flash"


class _GeminiStruct(Struct, forbid_unknown_fields=True, rename="camel"):
    pass


class Blob(_GeminiStruct):
    mime_type: Annotated[str, Meta(pattern="^[a-z]+/[a-z0-9.+-]+$")]
    data: str


class GeminiFileData(_GeminiStruct):
    file_uri: Annotated[str, Meta(pattern="^https?://")]
    mime_type: Annotated[str, Meta(pattern="^[a-z]+/[a-z0-9.+-]+$")]


class StrictGeminiFunctionCall(_GeminiStruct):
    name: str
    args: dict[str, object]
    id: str = ""


class ResponsePart(_GeminiStruct):
    inline_data: Blob


class FunctionResponse(_GeminiStruct):
    name: str
    response: dict[str, object]
    id: str = ""
    parts: Annotated[list[ResponsePart], Meta(min_length=1)] | None = None


class ExecutableCode(_GeminiStruct):
    language: Literal["PYTHON"]
    code: str
    id: str = ""


class CodeExecutionResult(_GeminiStruct):
    outcome: Literal["OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"]
    output: str = ""
    id: str = ""


class StrictGeminiToolCall(_GeminiStruct):
    tool_type: Literal["GOOGLE_SEARCH_WEB", "FILE_SEARCH", "URL_CONTEXT"]
    id: str
    args: dict[str, object] = {}


class ToolResponse(_GeminiStruct):
    tool_type: Literal["GOOGLE_SEARCH_WEB", "FILE_SEARCH", "URL_CONTEXT"]
    id: str
    response: dict[str, object] = {}


class Part(_GeminiStruct):
    text: str | None = None
    inline_data: Blob | None = None
    file_data: GeminiFileData | None = None
    function_call: StrictGeminiFunctionCall | None = None
    function_response: FunctionResponse | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeExecutionResult | None = None
    tool_call: StrictGeminiToolCall | None = None
    tool_response: ToolResponse | None = None
    thought_signature: str | None = None

    @property
    def data(self) -> list[object]:
        """What it holds: exactly one thing must be there."""
        return [
            value
            for name in self.__struct_fields__
            if name != "thought_signature" and (value := getattr(self, name)) is not None
        ]


class StrictGeminiContent(_GeminiStruct):
    role: Literal["user", "model"]
    parts: Annotated[list[Part], Meta(min_length=1)]

    def parts_of(self, kind: type[object]) -> list[Part]:
        return [part for part in self.parts if isinstance(part.data[0], kind)]


class System(_GeminiStruct):
    parts: Annotated[list[Part], Meta(min_length=1)]


class Function(_GeminiStruct):
    name: str
    description: Annotated[str, Meta(min_length=1)]
    parameters_json_schema: dict[str, object] | None = None


class EmptyObject(_GeminiStruct):
    pass


class FileSearch(_GeminiStruct):
    file_search_store_names: Annotated[list[str], Meta(min_length=1)]


class GeminiTool(_GeminiStruct):
    function_declarations: Annotated[list[Function], Meta(min_length=1)] | None = None
    google_search: EmptyObject | None = None
    code_execution: EmptyObject | None = None
    file_search: FileSearch | None = None


class CallingConfig(_GeminiStruct):
    mode: Literal["AUTO", "ANY", "NONE"]
    allowed_function_names: Annotated[list[str], Meta(min_length=1)] | None = None


class ToolConfig(_GeminiStruct):
    function_calling_config: CallingConfig | None = None
    include_server_side_tool_invocations: bool = False


class GeminiThinkingConfig(_GeminiStruct):
    include_thoughts: bool


class Generation(_GeminiStruct):
    thinking_config: GeminiThinkingConfig | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop_sequences: Annotated[list[str], Meta(min_length=1, max_length=5)] | None = None
    seed: Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None = None
    response_mime_type: Literal["application/json"] | None = None
    response_json_schema: dict[str, object] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, lt=2)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, lt=2)] | None = None


class StrictGeminiBody(_GeminiStruct):
    contents: Annotated[list[StrictGeminiContent], Meta(min_length=1)]
    system_instruction: System | None = None
    tools: Annotated[list[GeminiTool], Meta(min_length=1)] | None = None
    tool_config: ToolConfig | None = None
    generation_config: Generation | None = None


def faults_of(body: bytes, model: str = MODEL) -> list[str]:
    """Return why a strict provider refuses this body; empty if it accepts it."""
    try:
        request_body = msgspec.json.decode(body, type=StrictGeminiBody)
    except (msgspec.DecodeError, UnicodeError) as error:
        return [str(error)]
    contents = [*request_body.contents, *([request_body.system_instruction] if request_body.system_instruction else [])]
    faults = [fault for content in contents for part in content.parts for fault in _part_faults(part)]
    if faults:
        return faults
    faults = [
        *_order_faults(request_body.contents),
        *_signature_faults(request_body.contents, model),
        *_tool_faults(request_body, model),
    ]
    config = request_body.generation_config
    if config and config.thinking_config and not re.match(r"gemini-(2\.5|3)", model):
        faults.append("Thinking is not enabled for this model")
    if config and (config.frequency_penalty or config.presence_penalty) and not model.startswith("gemini-2.0"):
        faults.append("Penalty is not enabled for this model")
    return faults


def _part_faults(part: Part) -> list[str]:
    values = part.data
    if len(values) != 1:
        return ["Unable to submit request because a part must have one data field initialized"]
    if values[0] == "":
        return ["Unable to submit request because it has an empty text parameter"]
    function_part = part.function_call or part.function_response
    faults = (
        [f"Invalid function name {function_part.name!r}"]
        if function_part and not NAME.fullmatch(function_part.name)
        else []
    )
    for data in (part.inline_data.data if part.inline_data else "", part.thought_signature or ""):
        try:
            base64.b64decode(data.replace("_", "/").replace("-", "+"), validate=True)
        except binascii.Error:
            faults.append("Base64 decoding failed")
    return faults


def _order_faults(contents: Sequence[StrictGeminiContent]) -> list[str]:
    faults: list[str] = []
    if contents[0].role != "user":
        faults.append("Please ensure that multiturn requests begin with a user role")
    if contents[-1].role != "user":
        faults.append("Please ensure that multiturn requests end with a user role or a function response")
    before: StrictGeminiContent | None = None
    for content in contents:
        if before is not None and before.role == content.role:
            faults.append("Please ensure that multiturn requests alternate between user and model")
        faults += _content_faults(content, before)
        before = content
    if before is not None and before.parts_of(StrictGeminiFunctionCall):
        faults.append("Please ensure that function response turn comes immediately after a function call turn")
    return faults


def _content_faults(content: StrictGeminiContent, before: StrictGeminiContent | None) -> list[str]:
    kinds: tuple[type[object], ...] = (
        StrictGeminiFunctionCall,
        ExecutableCode,
        CodeExecutionResult,
        StrictGeminiToolCall,
        ToolResponse,
    )
    faults: list[str] = []
    if content.role == "user" and any(content.parts_of(kind) for kind in kinds):
        faults.append("the user cannot call functions or run code")
    if content.role == "model" and content.parts_of(FunctionResponse):
        faults.append("Please ensure that function responses have the user role")
    calls = (
        [cast("StrictGeminiFunctionCall", part.data[0]) for part in before.parts_of(StrictGeminiFunctionCall)]
        if before
        else []
    )
    answers = [cast("FunctionResponse", part.data[0]) for part in content.parts_of(FunctionResponse)]
    if len(calls) != len(answers):
        faults.append(
            "Please ensure that the number of function response parts is equal to the number of function call parts "
            "of the function call turn."
        )
    elif [(call.id, call.name) for call in calls] != [(answer.id, answer.name) for answer in answers]:
        faults.append("function responses do not match their calls")
    for asked, answered in ((ExecutableCode, CodeExecutionResult), (StrictGeminiToolCall, ToolResponse)):
        if len(content.parts_of(asked)) != len(content.parts_of(answered)):
            faults.append("Please ensure that code and tool calls come with their results")
    return faults


def _signature_faults(contents: Sequence[StrictGeminiContent], model: str) -> list[str]:
    """Checked in the current turn: after the last content that is not only function responses."""
    start = max(
        (n for n, entry in enumerate(contents) if entry.role == "user" and not entry.parts_of(FunctionResponse)),
        default=0,
    )
    faults: list[str] = []
    for content in contents[start:] if model.startswith("gemini-3") else ():
        steps = content.parts_of(StrictGeminiFunctionCall)[:1]
        for part in steps:
            if not part.thought_signature:
                name = cast("StrictGeminiFunctionCall", part.data[0]).name
                faults.append(f"Function call `{name}` is missing a thought_signature in functionCall parts.")
    for content in contents:
        for part in content.parts:
            signature = part.thought_signature
            if signature and signature != UNSIGNED and signature != make_signature(model):
                faults.append("Thought signature is not valid.")
    return faults


def make_signature(model: str = MODEL) -> str:
    """What this model signs with."""
    return base64.b64encode(f"signed by {model}".encode()).decode()


def _tool_faults(request_body: StrictGeminiBody, model: str) -> list[str]:
    tools = request_body.tools or []
    functions = [function for tool in tools for function in tool.function_declarations or ()]
    names = [function.name for function in functions]
    faults = [f"Invalid function name {name!r}" for name in names if not NAME.fullmatch(name)]
    faults += [f"Duplicate function declaration found: {name}" for name in {n for n in names if names.count(n) > 1}]
    for function in functions:
        if function.parameters_json_schema is not None:
            faults += _schema_faults(function.name, function.parameters_json_schema)
    native = any(tool.google_search or tool.code_execution or tool.file_search for tool in tools)
    together = bool(request_body.tool_config and request_body.tool_config.include_server_side_tool_invocations)
    if native and functions and not model.startswith("gemini-3"):
        faults.append("Tool use with function calling is unsupported")
    if native and functions and not together:
        faults.append("Please enable tool_config.include_server_side_tool_invocations to combine tools")
    calling = request_body.tool_config.function_calling_config if request_body.tool_config else None
    if calling is not None and not functions:
        faults.append("Function calling config is set without function_declarations.")
    if calling is not None and calling.allowed_function_names is not None:
        if calling.mode != "ANY":
            faults.append("allowed_function_names should only be set when the mode is ANY")
        faults += [
            f"allowed function {name!r} is not declared" for name in {*calling.allowed_function_names} - {*names}
        ]
    return faults


def _schema_faults(name: str, schema: dict[str, object]) -> list[str]:
    has_properties = schema.get("properties") or ("additionalProperties" in schema and "properties" not in schema)
    faults = [] if has_properties else ["properties should be non-empty for OBJECT type"]
    return [f"{name}: {fault}" for fault in [*faults, *gemini_faults(schema)]]


def refuses(status: int, message: str) -> Reply:
    """An error as Google wraps it."""
    names = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
    error = {"code": status, "message": message, "status": names.get(status, "UNKNOWN")}
    return Reply(
        packets=[json.dumps({"error": error}).encode()],
        status=status,
        headers={"Content-Type": "application/json"},
    )


def path_of(model: str = MODEL) -> str:
    return f"/models/{model}:streamGenerateContent"


def strict_gemini(*replies: Reply, model: str = MODEL) -> StrictServer:
    check: Callable[[bytes], list[str]] = lambda body: faults_of(body, model)  # noqa: E731
    return StrictServer(path_of(model), check, *replies, refuse=refuses)
