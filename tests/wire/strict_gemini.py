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
from wire.strict import Reply, Strict

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
UNSIGNED = "skip_thought_signature_validator"
MODEL = "gemini-3-flash"


class _Strict(Struct, forbid_unknown_fields=True, rename="camel"):
    pass


class Blob(_Strict):
    mime_type: Annotated[str, Meta(pattern="^[a-z]+/[a-z0-9.+-]+$")]
    data: str


class FileData(_Strict):
    file_uri: Annotated[str, Meta(pattern="^https?://")]
    mime_type: Annotated[str, Meta(pattern="^[a-z]+/[a-z0-9.+-]+$")]


class FunctionCall(_Strict):
    name: str
    args: dict[str, object]
    id: str = ""


class ResponsePart(_Strict):
    inline_data: Blob


class FunctionResponse(_Strict):
    name: str
    response: dict[str, object]
    id: str = ""
    parts: Annotated[list[ResponsePart], Meta(min_length=1)] | None = None


class ExecutableCode(_Strict):
    language: Literal["PYTHON"]
    code: str
    id: str = ""


class CodeExecutionResult(_Strict):
    outcome: Literal["OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"]
    output: str = ""
    id: str = ""


class ToolCall(_Strict):
    tool_type: Literal["GOOGLE_SEARCH_WEB", "FILE_SEARCH", "URL_CONTEXT"]
    id: str
    args: dict[str, object] = {}


class ToolResponse(_Strict):
    tool_type: Literal["GOOGLE_SEARCH_WEB", "FILE_SEARCH", "URL_CONTEXT"]
    id: str
    response: dict[str, object] = {}


class Part(_Strict):
    text: str | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeExecutionResult | None = None
    tool_call: ToolCall | None = None
    tool_response: ToolResponse | None = None
    thought_signature: str | None = None

    @property
    def data(self) -> list[object]:
        """What it holds: exactly one thing must be there."""
        return [
            one
            for name in self.__struct_fields__
            if name != "thought_signature" and (one := getattr(self, name)) is not None
        ]


class Content(_Strict):
    role: Literal["user", "model"]
    parts: Annotated[list[Part], Meta(min_length=1)]

    def of(self, kind: type[object]) -> list[Part]:
        return [part for part in self.parts if isinstance(part.data[0], kind)]


class System(_Strict):
    parts: Annotated[list[Part], Meta(min_length=1)]


class Function(_Strict):
    name: str
    description: Annotated[str, Meta(min_length=1)]
    parameters_json_schema: dict[str, object] | None = None


class Nothing(_Strict):
    pass


class FileSearch(_Strict):
    file_search_store_names: Annotated[list[str], Meta(min_length=1)]


class Tool(_Strict):
    function_declarations: Annotated[list[Function], Meta(min_length=1)] | None = None
    google_search: Nothing | None = None
    code_execution: Nothing | None = None
    file_search: FileSearch | None = None


class CallingConfig(_Strict):
    mode: Literal["AUTO", "ANY", "NONE"]
    allowed_function_names: Annotated[list[str], Meta(min_length=1)] | None = None


class ToolConfig(_Strict):
    function_calling_config: CallingConfig | None = None
    include_server_side_tool_invocations: bool = False


class Thinking(_Strict):
    include_thoughts: bool


class Generation(_Strict):
    thinking_config: Thinking


class Body(_Strict):
    contents: Annotated[list[Content], Meta(min_length=1)]
    system_instruction: System | None = None
    tools: Annotated[list[Tool], Meta(min_length=1)] | None = None
    tool_config: ToolConfig | None = None
    generation_config: Generation | None = None


def faults_of(body: bytes, model: str = MODEL) -> list[str]:
    """Why a strict provider refuses this body; empty if it takes it."""
    try:
        asked = msgspec.json.decode(body, type=Body)
    except (msgspec.DecodeError, UnicodeError) as error:
        return [str(error)]
    said = [*asked.contents, *([asked.system_instruction] if asked.system_instruction else [])]
    found = [fault for one in said for part in one.parts for fault in _part_faults(part)]
    if found:
        return found
    found = [*_order_faults(asked.contents), *_signature_faults(asked.contents, model), *_tool_faults(asked, model)]
    if asked.generation_config and not re.match(r"gemini-(2\.5|3)", model):
        found.append("Thinking is not enabled for this model")
    return found


def _part_faults(part: Part) -> list[str]:
    held = part.data
    if len(held) != 1:
        return ["Unable to submit request because a part must have one data field initialized"]
    if held[0] == "":
        return ["Unable to submit request because it has an empty text parameter"]
    named = part.function_call or part.function_response
    found = [f"Invalid function name {named.name!r}"] if named and not NAME.fullmatch(named.name) else []
    for told in (part.inline_data.data if part.inline_data else "", part.thought_signature or ""):
        try:
            base64.b64decode(told.replace("_", "/").replace("-", "+"), validate=True)
        except binascii.Error:
            found.append("Base64 decoding failed")
    return found


def _order_faults(contents: Sequence[Content]) -> list[str]:
    found: list[str] = []
    if contents[0].role != "user":
        found.append("Please ensure that multiturn requests begin with a user role")
    if contents[-1].role != "user":
        found.append("Please ensure that multiturn requests end with a user role or a function response")
    before: Content | None = None
    for content in contents:
        if before is not None and before.role == content.role:
            found.append("Please ensure that multiturn requests alternate between user and model")
        found += _content_faults(content, before)
        before = content
    if before is not None and before.of(FunctionCall):
        found.append("Please ensure that function response turn comes immediately after a function call turn")
    return found


def _content_faults(content: Content, before: Content | None) -> list[str]:
    kinds: tuple[type[object], ...] = (FunctionCall, ExecutableCode, CodeExecutionResult, ToolCall, ToolResponse)
    found: list[str] = []
    if content.role == "user" and any(content.of(kind) for kind in kinds):
        found.append("the user cannot call functions or run code")
    if content.role == "model" and content.of(FunctionResponse):
        found.append("Please ensure that function responses have the user role")
    calls = [cast("FunctionCall", part.data[0]) for part in before.of(FunctionCall)] if before else []
    answers = [cast("FunctionResponse", part.data[0]) for part in content.of(FunctionResponse)]
    if len(calls) != len(answers):
        found.append(
            "Please ensure that the number of function response parts is equal to the number of function call parts "
            "of the function call turn."
        )
    elif [(one.id, one.name) for one in calls] != [(one.id, one.name) for one in answers]:
        found.append("function responses do not match their calls")
    for asked, answered in ((ExecutableCode, CodeExecutionResult), (ToolCall, ToolResponse)):
        if len(content.of(asked)) != len(content.of(answered)):
            found.append("Please ensure that code and tool calls come with their results")
    return found


def _signature_faults(contents: Sequence[Content], model: str) -> list[str]:
    """Checked in the current turn: after the last content that is not only function responses."""
    start = max((n for n, one in enumerate(contents) if one.role == "user" and not one.of(FunctionResponse)), default=0)
    found: list[str] = []
    for content in contents[start:] if model.startswith("gemini-3") else ():
        steps = content.of(FunctionCall)[:1]
        for part in steps:
            if not part.thought_signature:
                name = cast("FunctionCall", part.data[0]).name
                found.append(f"Function call `{name}` is missing a thought_signature in functionCall parts.")
    for content in contents:
        for part in content.parts:
            signature = part.thought_signature
            if signature and signature != UNSIGNED and signature != sign(model):
                found.append("Thought signature is not valid.")
    return found


def sign(model: str = MODEL) -> str:
    """What this model signs with."""
    return base64.b64encode(f"signed by {model}".encode()).decode()


def _tool_faults(asked: Body, model: str) -> list[str]:
    tools = asked.tools or []
    functions = [one for tool in tools for one in tool.function_declarations or ()]
    names = [one.name for one in functions]
    found = [f"Invalid function name {name!r}" for name in names if not NAME.fullmatch(name)]
    found += [f"Duplicate function declaration found: {name}" for name in {n for n in names if names.count(n) > 1}]
    for one in functions:
        if one.parameters_json_schema is not None:
            found += _schema_faults(one.name, one.parameters_json_schema)
    native = any(tool.google_search or tool.code_execution or tool.file_search for tool in tools)
    together = bool(asked.tool_config and asked.tool_config.include_server_side_tool_invocations)
    if native and functions and not model.startswith("gemini-3"):
        found.append("Tool use with function calling is unsupported")
    if native and functions and not together:
        found.append("Please enable tool_config.include_server_side_tool_invocations to combine tools")
    calling = asked.tool_config.function_calling_config if asked.tool_config else None
    if calling is not None and not functions:
        found.append("Function calling config is set without function_declarations.")
    if calling is not None and calling.allowed_function_names is not None:
        if calling.mode != "ANY":
            found.append("allowed_function_names should only be set when the mode is ANY")
        found += [f"allowed function {name!r} is not declared" for name in {*calling.allowed_function_names} - {*names}]
    return found


def _schema_faults(name: str, schema: dict[str, object]) -> list[str]:
    known = schema.get("properties") or ("additionalProperties" in schema and "properties" not in schema)
    found = [] if known else ["properties should be non-empty for OBJECT type"]
    return [f"{name}: {fault}" for fault in [*found, *gemini_faults(schema)]]


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


def strict_gemini(*replies: Reply, model: str = MODEL) -> Strict:
    check: Callable[[bytes], list[str]] = lambda body: faults_of(body, model)  # noqa: E731
    return Strict(path_of(model), check, *replies, refuse=refuses)
