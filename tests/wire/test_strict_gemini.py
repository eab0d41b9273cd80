"""The strict generateContent server does refuse what it says it refuses, and takes what is in order."""

import asyncio
import json
from functools import partial

import pytest
from google import genai
from google.genai import errors, types

from wire.gemini_bytes import says
from wire.strict_gemini import MODEL, UNSIGNED, faults_of, make_signature, strict_gemini

Json = dict[str, object]


def content(role: str, *parts: Json) -> Json:
    return {"role": role, "parts": parts}


def body(*contents: Json, **more: object) -> bytes:
    return json.dumps({"contents": contents, **more}).encode()


def call(name: str = "add", id: str = "a", signature: str = make_signature()) -> Json:
    part: Json = {"functionCall": {"id": id, "name": name, "args": {}}}
    return {**part, "thoughtSignature": signature} if signature else part


def answer(name: str = "add", id: str = "a") -> Json:
    return {"functionResponse": {"id": id, "name": name, "response": {"output": "3"}}}


def function(name: str = "add", **properties: object) -> Json:
    takes: Json = {"parametersJsonSchema": {"type": "object", "properties": properties}} if properties else {}
    return {"name": name, "description": "Add.", **takes}


def functions(*declarations: Json, **more: object) -> Json:
    return {"tools": [{"functionDeclarations": declarations}], **more}


def choice(mode: str, *names: str) -> Json:
    config: Json = {"mode": mode, **({"allowedFunctionNames": names} if names else {})}
    return {"functionCallingConfig": config}


TEXT: Json = {"text": "hi"}
HI = content("user", TEXT)
OK = content("model", {"text": "ok"})
STEP = (content("model", call()), content("user", answer()))
CODE: Json = {"executableCode": {"language": "PYTHON", "code": "1"}}
RUN: Json = {"codeExecution": {}}
CODE_RESULT: Json = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
NONE: list[str] = []
SEARCH: Json = {"googleSearch": {}}
TOGETHER: Json = {"includeServerSideToolInvocations": True}
THINK: Json = {"thinkingConfig": {"includeThoughts": True}}
SYSTEM: Json = {"parts": [TEXT]}


@pytest.mark.parametrize(
    "good",
    [
        body(HI),
        body(HI, OK, HI, systemInstruction=SYSTEM, generationConfig=THINK),
        body(HI, content("model", TEXT, call(), call(id="b", signature="")), content("user", answer(), answer(id="b"))),
        body(HI, content("model", call()), content("user", answer(), TEXT)),
        body(HI, content("model", call(signature="")), content("user", answer()), OK, HI),
        body(HI, content("model", call(signature=UNSIGNED)), content("user", answer())),
        body(HI, content("model", CODE, CODE_RESULT, TEXT), HI, tools=[RUN, SEARCH]),
        body(HI, **functions(function(a={"type": "integer"}), function("sub")), toolConfig=choice("ANY", "sub")),
        body(HI, tools=[{"functionDeclarations": [function()]}, SEARCH], toolConfig=TOGETHER),
        body(content("user", {"inlineData": {"mimeType": "image/png", "data": "AA=="}})),
        body(content("user", {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}})),
    ],
)
def test_what_is_in_order_is_taken(good: bytes) -> None:
    assert faults_of(good) == []


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"{", "truncated"),
        (body(), "length >= 1"),
        (body(HI, temperature=1), "unknown field `temperature`"),
        (body(HI, model="m"), "unknown field `model`"),
        (body({**HI, "id": "u1"}), "unknown field `id`"),
        (body(content("assistant", TEXT)), "assistant"),
        (body(content("function", answer())), "function"),
        (body(content("user")), "length >= 1"),
        (body(content("user", {"text": ""})), "empty text"),
        (body(content("user", {})), "one data field"),
        (body(content("user", {**TEXT, **answer()})), "one data field"),
        (body(content("user", {"text": "hi", "cache": 1})), "unknown field `cache`"),
        (body(HI, systemInstruction={"parts": [{"text": ""}]}), "empty text"),
        (body(HI, systemInstruction="be brief"), "object"),
        (body(OK, HI), "begin with a user role"),
        (body(HI, OK), "end with a user role"),
        (body(HI, HI), "alternate"),
        (body(HI, OK, OK, HI), "alternate"),
        (body(HI, content("model", call())), "comes immediately after a function call turn"),
        (body(HI, content("model", call()), HI), "number of function response parts"),
        (body(HI, content("model", call(), call(id="b")), content("user", answer())), "number of function response"),
        (body(HI, content("model", call()), content("user", answer(), answer(id="b"))), "number of function response"),
        (body(HI, OK, content("user", answer())), "number of function response"),
        (body(content("user", answer())), "number of function response"),
        (body(HI, content("model", call()), content("user", answer()), OK, content("user", answer())), "number of"),
        (body(HI, content("model", call()), content("user", answer("sub"))), "do not match"),
        (body(HI, content("model", call()), content("user", answer(id="b"))), "do not match"),
        (body(HI, content("model", answer()), HI), "have the user role"),
        (body(content("user", call())), "cannot call functions"),
        (body(HI, content("model", call("a/b")), content("user", answer("a/b"))), "Invalid function name"),
        (body(HI, content("model", call("3d")), content("user", answer("3d"))), "Invalid function name"),
        (body(HI, content("model", call("")), content("user", answer(""))), "Invalid function name"),
        (body(HI, content("model", call(signature="")), content("user", answer())), "missing a thought_signature"),
        (
            body(HI, *STEP, content("model", call(signature="")), content("user", answer())),
            "missing a thought_signature",
        ),
        (
            body(HI, content("model", call(signature=make_signature("gemini-3-pro"))), content("user", answer())),
            "not valid",
        ),
        (body(HI, content("model", {**TEXT, "thoughtSignature": "Zm9yZ2Vk"}), HI), "not valid"),
        (body(HI, content("model", call(signature="no base64!")), content("user", answer())), "Base64"),
        (body(HI, content("model", {"functionCall": {"name": "add", "args": "{}"}}), HI), "`object`, got `str`"),
        (body(HI, content("user", {"functionResponse": {"name": "add", "response": "3"}})), "`object`, got `str`"),
        (body(HI, content("model", CODE, TEXT), HI), "with their results"),
        (body(HI, content("model", CODE_RESULT), HI), "with their results"),
        (body(content("user", {"inlineData": {"mimeType": "image/png", "data": "?"}})), "Base64"),
        (body(content("user", {"inlineData": {"mimeType": "", "data": "AA=="}})), "matching"),
        (body(content("user", {"fileData": {"mimeType": "image/png", "fileUri": "file:///a"}})), "matching"),
        (body(HI, tools=[]), "length >= 1"),
        (body(HI, **functions()), "length >= 1"),
        (body(HI, **functions(function("3d"))), "Invalid function name"),
        (body(HI, **functions(function("x" * 65))), "Invalid function name"),
        (body(HI, **functions(function(), function())), "Duplicate function"),
        (body(HI, **functions({"name": "add", "description": ""})), "length >= 1"),
        (body(HI, **functions({**function(), "parametersJsonSchema": {"type": "object"}})), "non-empty"),
        (body(HI, **functions({**function(), "parametersJsonSchema": {"properties": {"a": {}}}})), "of type object"),
        (body(HI, **functions(function(a={"const": 1}))), "'const' is not supported"),
        (body(HI, **functions(function(a={"type": "string", "pattern": "a"}))), "'pattern' is not supported"),
        (body(HI, **functions(function(a={"allOf": []}))), "'allOf' is not supported"),
        (body(HI, **functions(function(a={"type": "array"}))), "items: missing field"),
        (body(HI, **functions(function(a={"enum": ["", "b"]}))), "enum must list"),
        (body(HI, **functions(function(a={"required": ["b"]}))), "a property that is not defined"),
        (body(HI, tools=[SEARCH, {"functionDeclarations": [function()]}]), "include_server_side"),
        (body(HI, tools=[SEARCH], toolConfig=choice("AUTO")), "without function_declarations"),
        (body(HI, **functions(function()), toolConfig=choice("ANY", "sub")), "not declared"),
        (body(HI, **functions(function()), toolConfig=choice("AUTO", "add")), "only be set when the mode is ANY"),
        (body(HI, **functions(function()), toolConfig=choice("auto")), "auto"),
        (body(HI, tools=[{"googleSearch": {"allowedDomains": ["a"]}}]), "allowedDomains"),
        (body(HI, tools=[{"fileSearch": {"fileSearchStoreNames": NONE}}]), "length >= 1"),
    ],
)
def test_what_is_not_in_order_is_refused(bad: bytes, says: str) -> None:
    assert says in "; ".join(faults_of(bad))


def test_an_older_model_has_either_its_own_tools_or_functions_and_needs_no_signatures() -> None:
    both = body(HI, tools=[{"functionDeclarations": [function()]}, SEARCH], toolConfig=TOGETHER)
    assert "unsupported" in "; ".join(faults_of(both, "gemini-2.5-flash"))
    unsigned = body(HI, content("model", call(signature="")), content("user", answer()))
    assert faults_of(unsigned, "gemini-2.5-flash") == []
    assert "Thinking" in "; ".join(faults_of(body(HI, generationConfig=THINK), "gemini-2.0-flash"))


def ask(base_url: str, *contents: types.Content) -> str:
    options = types.HttpOptions(base_url=base_url.removesuffix("/v1"), api_version="v1")
    with genai.Client(api_key="none", http_options=options) as client:
        stream = client.models.generate_content_stream  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        chunks = stream(model=MODEL, contents=list(contents))
        return "".join(chunk.text or "" for chunk in chunks)


async def test_the_server_answers_400_with_the_reason_and_keeps_its_script() -> None:
    strict = strict_gemini(says("Done."))
    hello = types.Content(role="user", parts=[types.Part(text="hi")])
    async with strict.serving() as base_url:
        with pytest.raises(errors.ClientError, match="alternate"):
            await asyncio.to_thread(partial(ask, base_url, hello, hello))
        assert await asyncio.to_thread(partial(ask, base_url, hello)) == "Done."
    assert (len(strict.refusals), strict.replies) == (1, [])
