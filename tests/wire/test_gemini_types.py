"""Our generateContent bodies are what the official SDK's types say, and the check refuses nonsense."""

import copy
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from google.genai import types
from pydantic import BaseModel, ValidationError

from toolyard.core.settings.models.options import Options
from toolyard.core.tools.definition import Tool
from toolyard.models.gemini import from_wire, to_wire
from wire.checks import expect_ended
from wire.everything import ADD, CODE, EMPTY_OBJECT, HISTORY, PLAIN_SEARCH
from wire.gemini_bytes import SIGNED, TOOL_CALL, TOOL_RESPONSE, build_thought, call, chunks, code, output, text
from wire.local import offer, request, user
from wire.strict_gemini import MODEL, faults_of

REPLY_CHUNKS = chunks(
    build_thought("Hm."),
    text("I search."),
    TOOL_CALL,
    TOOL_RESPONSE,
    code("print(6*7)", **SIGNED),
    output("42\n"),
    text("So.", **SIGNED),
    call("add", {"a": 1}, **SIGNED),
    call("add", {"a": 2}),
)
SEALED_ITEMS = [user("search", "u9"), *expect_ended(from_wire(REPLY_CHUNKS, request(model=MODEL))).items]
TOOLS = offer(ADD, Tool(name="now"), Tool(name="3d-print"), PLAIN_SEARCH, CODE)
EVERYTHING = request([*HISTORY, *SEALED_ITEMS, user("go on", "u10")], system="You help.", tools=TOOLS)
Body = dict[str, Any]
FIELDS: dict[str, type[BaseModel]] = {
    "systemInstruction": types.Content,
    "toolConfig": types.ToolConfig,
    "generationConfig": types.GenerationConfig,
}
LISTS: dict[str, type[BaseModel]] = {"contents": types.Content, "tools": types.Tool}


def type_mismatches(body: Body) -> list[str]:
    """What the SDK's types do not take, or take under another name, all the way down."""
    faults = [f"{key} is not a field of a request" for key in body.keys() - FIELDS.keys() - LISTS.keys()]
    values = [(key, FIELDS[key], body[key]) for key in FIELDS.keys() & body.keys()]
    values += [(key, LISTS[key], value) for key in LISTS.keys() & body.keys() for value in body[key]]
    for key, expected, value in values:
        try:
            read = expected.model_validate_json(json.dumps(value), strict=True)
        except (ValidationError, UserWarning) as error:
            faults.append(f"{key}: {error}")
            continue
        if read.model_dump(by_alias=True, exclude_unset=True, mode="json") != to_urlsafe(value):
            faults.append(f"{key}: read as something else")
    return faults


THOUGHTS = {"includeThoughts": True}


@pytest.mark.parametrize(
    ("options", "model", "expected"),
    [
        (Options(max_tokens=900, temperature=0.2), "gemini-2.0-flash", {"maxOutputTokens": 900, "temperature": 0.2}),
        (Options(thinking="low"), "gemini-2.0-flash", None),
        (
            Options(top_p=0.9, stop=("END",), seed=7, output_schema=EMPTY_OBJECT),
            "gemini-2.0-flash",
            {
                "topP": 0.9,
                "stopSequences": ["END"],
                "seed": 7,
                "responseMimeType": "application/json",
                "responseJsonSchema": EMPTY_OBJECT,
            },
        ),
        (Options(thinking="low"), MODEL, {"thinkingConfig": {**THOUGHTS, "thinkingLevel": "LOW"}}),
        (Options(thinking="low"), "gemini-2.5-pro", {"thinkingConfig": {**THOUGHTS, "thinkingBudget": 2_048}}),
        (Options(thinking=512), MODEL, {"thinkingConfig": {**THOUGHTS, "thinkingBudget": 512}}),
        (Options(thinking="adaptive"), MODEL, {"thinkingConfig": THOUGHTS}),
    ],
)
def test_how_a_model_is_to_answer_is_said_in_the_provider_s_words(
    options: Options, model: str, expected: object
) -> None:
    body = json.loads(to_wire(request([user("hi")], options=options), model))
    assert type_mismatches(body) == []
    assert body.get("generationConfig") == expected


def to_urlsafe(value: Any) -> Any:
    """The value with base64 in the alphabet that the SDK writes."""
    if isinstance(value, dict):
        fields = cast("Body", value)
        return {
            key: urlsafe(field) if key in ("data", "thoughtSignature") else to_urlsafe(field)
            for key, field in fields.items()
        }
    return [to_urlsafe(element) for element in cast("list[Any]", value)] if isinstance(value, list) else value


def urlsafe(text: str) -> str:
    return text.replace("+", "-").replace("/", "_")


@pytest.mark.parametrize("choice", ["auto", "none", "required", "add", "web_search", "3d-print"])
def test_a_body_with_everything_in_it_fits_the_types_and_a_strict_provider(choice: str) -> None:
    history = [*HISTORY, *SEALED_ITEMS, user("go on", "u10")]
    body = to_wire(request(history, system="You help.", tools=TOOLS, tool_choice=choice), MODEL)
    assert (type_mismatches(json.loads(body)), faults_of(body)) == ([], [])
    kinds = {key for content in json.loads(body)["contents"] for part in content["parts"] for key in part}
    assert kinds == {
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
        "thoughtSignature",
    }


def test_a_body_with_next_to_nothing_in_it_fits_the_types() -> None:
    assert type_mismatches(json.loads(to_wire(request([user("hi")])))) == []


BODY = json.loads(to_wire(EVERYTHING, MODEL))


def find_part(body: Body, kind: str) -> Body:
    return next(part for content in body["contents"] for part in content["parts"] if kind in part)


def set_extra(body: Body) -> None:
    body["contents"][0]["id"] = "x"


def set_deep_extra(body: Body) -> None:
    find_part(body, "functionCall")["functionCall"]["tool"] = "x"


def set_top_level_extra(body: Body) -> None:
    body["messages"] = []


def set_other_spelling(body: Body) -> None:
    call_part = find_part(body, "functionCall")
    call_part["function_call"] = call_part.pop("functionCall")


def set_text_arguments(body: Body) -> None:
    find_part(body, "functionCall")["functionCall"]["args"] = '{"a": 1}'


def set_text_response(body: Body) -> None:
    find_part(body, "functionResponse")["functionResponse"]["response"] = "3"


def set_wrong_signature(body: Body) -> None:
    find_part(body, "thoughtSignature")["thoughtSignature"] = 7


def set_wrong_data(body: Body) -> None:
    find_part(body, "inlineData")["inlineData"]["data"] = ["AA=="]


def set_unknown_mode(body: Body) -> None:
    body["toolConfig"]["functionCallingConfig"]["mode"] = "SOMETIMES"


def set_openai_tool(body: Body) -> None:
    body["tools"][0] = {"type": "function", "function": {"name": "add"}}


def set_text_system(body: Body) -> None:
    body["systemInstruction"] = "You help."


@pytest.mark.parametrize(
    "spoil",
    [
        set_extra,
        set_deep_extra,
        set_top_level_extra,
        set_other_spelling,
        set_text_arguments,
        set_text_response,
        set_wrong_signature,
        set_wrong_data,
        set_unknown_mode,
        set_openai_tool,
        set_text_system,
    ],
)
def test_nonsense_does_not_fit_the_types(spoil: Callable[[Body], None]) -> None:
    """A negative control for each kind of mistake that the check must see."""
    body = copy.deepcopy(BODY)
    assert type_mismatches(body) == []
    spoil(body)
    assert type_mismatches(body) != []


def test_what_one_model_signed_is_not_sent_to_another() -> None:
    body = to_wire(request([*SEALED_ITEMS, user("go on", "u10")], tools=TOOLS), "gemini-3-pro")
    assert b"executableCode" not in body and b"toolCall" not in body
    assert faults_of(body, "gemini-3-pro") == []
    assert b"skip_thought_signature_validator" in body
