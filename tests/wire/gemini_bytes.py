"""Replies of generateContent as bytes, written as Google writes them: each chunk a whole response, with CRLF."""

import json
from collections.abc import Sequence

from wire.strict import Reply
from wire.strict_gemini import MODEL, make_signature

Json = dict[str, object]
USAGE: Json = {
    "promptTokenCount": 8,
    "toolUsePromptTokenCount": 2,
    "candidatesTokenCount": 4,
    "thoughtsTokenCount": 1,
    "cachedContentTokenCount": 4,
    "totalTokenCount": 15,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 8}],
}
SIGNED: Json = {"thoughtSignature": make_signature()}


def text(content: str, **more: object) -> Json:
    return {"text": content, **more}


def build_thought(content: str) -> Json:
    return {"text": content, "thought": True}


def call(tool: str, args: Json | None = None, **more: object) -> Json:
    """A call; without arguments none are sent."""
    return {"functionCall": {"name": tool, **({"args": args} if args is not None else {})}, **more}


def code(source: str, **more: object) -> Json:
    return {"executableCode": {"language": "PYTHON", "code": source}, **more}


def output(content: str, outcome: str = "OUTCOME_OK") -> Json:
    return {"codeExecutionResult": {"outcome": outcome, "output": content}}


TOOL_CALL: Json = {
    "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "srv_1", "args": {"queries": ["milk"]}},
    **SIGNED,
}
TOOL_RESPONSE: Json = {
    "toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "srv_1", "response": {"found": "white"}},
    **SIGNED,
}
CITED_TEXT = "🥛 Milk is white."
GROUNDING: Json = {
    "webSearchQueries": ["milk"],
    "groundingChunks": [{"web": {"uri": "https://example.org/milk", "title": "Milk"}}],
    "groundingSupports": [
        {"segment": {"startIndex": 5, "endIndex": 9, "text": "Milk"}, "groundingChunkIndices": [0, 7]}
    ],
    "searchEntryPoint": {"renderedContent": "<div/>"},
}


def chunk(*parts: Json, finish: str = "", **more: object) -> bytes:
    candidate: Json = {"index": 0, **more}
    if parts:
        candidate["content"] = {"parts": list(parts), "role": "model"}
    if finish:
        candidate["finishReason"] = finish
    return event({"candidates": [candidate], "usageMetadata": USAGE, "modelVersion": MODEL, "responseId": "r1"})


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\r\n\r\n"


def chunks(*parts: Json, finish: str = "STOP", **more: object) -> list[bytes]:
    """Each part in its own chunk; the last one ends the reply."""
    sent_parts: Sequence[Json] = parts or [text("")]
    return [*(chunk(part) for part in sent_parts[:-1]), chunk(sent_parts[-1], finish=finish, **more)]


def replies(*parts: Json, finish: str = "STOP", **more: object) -> Reply:
    return Reply(packets=chunks(*parts, finish=finish, **more))


def says(*pieces: str) -> Reply:
    return replies(*map(text, pieces))


def asks(*calls: tuple[str, Json], words: str = "") -> Reply:
    """Calls by tool and arguments. The first one is signed."""
    call_parts = [call(tool, args, **(SIGNED if number == 0 else {})) for number, (tool, args) in enumerate(calls)]
    return replies(*([text(words)] if words else []), *call_parts)
