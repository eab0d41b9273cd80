"""OpenRouter's Chat Completions before models that sign their thoughts: each call comes with the thought before it.

It answers 400 to an assistant message with calls and without `reasoning_details`, to details that are not those which
were sent (in pieces, changed, another model's), and to ones that name a call which is not there.
"""

import json

import msgspec

from wire.strict import Reply, Strict
from wire.strict_chat import asks as chat_asks
from wire.strict_chat import faults_of as chat_faults

Detail = dict[str, object]
CLAUDE, GEMINI = "anthropic/claude-sonnet-4.5", "google/gemini-3-pro"
TEXT: Detail = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "id": None}
SUMMARY: Detail = {"type": "reasoning.summary", "format": "openai-responses-v1", "index": 0}
SEALED: Detail = {"type": "reasoning.encrypted", "format": "google-gemini-v1", "index": 0}


def signed(text: str) -> Detail:
    return {**TEXT, "text": text, "signature": f"signed {text}"}


def faults_of(body: bytes) -> list[str]:
    """Why OpenRouter refuses this body; empty if it takes it."""
    asked = msgspec.json.decode(body, type=dict[str, object])
    messages = msgspec.convert(asked["messages"], list[dict[str, object]])
    found: list[str] = []
    for number, message in enumerate(messages):
        details = msgspec.convert(message.pop("reasoning_details", []), list[Detail])
        calls = msgspec.convert(message.get("tool_calls", []), list[Detail])
        found += [f"message {number}: {fault}" for fault in _faults(details, calls, str(asked["model"]))]
    return [*found, *chat_faults(msgspec.json.encode({**asked, "messages": messages}))]


def _faults(details: list[Detail], calls: list[Detail], model: str) -> list[str]:
    if calls and not details:
        return ["a call without the thought before it"]
    found: list[str] = []
    for detail in details:
        if detail["type"] == "reasoning.text" and detail != signed(str(detail.get("text"))):
            found.append("the signature does not fit the thought")
        if detail["type"] == "reasoning.encrypted" and detail.get("id") not in [call["id"] for call in calls]:
            found.append(f"no call {detail.get('id')!r}")
        if str(detail["format"]).partition("-")[0] != model.partition("/")[0]:
            found.append("a thought of another model")
    return found


def thinks(*pieces: Detail, text: str = "") -> list[bytes]:
    """A thought, one chunk for each of its pieces."""
    deltas = [{"content": "", "reasoning": text or None, "reasoning_details": [piece]} for piece in pieces]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]


def claude_asks(*calls: tuple[str, object], thought: str) -> Reply:
    """A text in two pieces, then its signature alone."""
    words = [{**TEXT, "text": piece} for piece in (thought[:2], thought[2:])]
    signature = {**TEXT, "signature": f"signed {thought}"}
    return Reply(packets=[*thinks(*words, text="x"), *thinks(signature), *chat_asks(*calls).packets])


def gemini_asks(*calls: tuple[str, object]) -> Reply:
    """A seal for the first call, by the id that it has there."""
    sealed = {**SEALED, "data": "c2VhbA==", "id": "call_0"}
    return Reply(packets=[*thinks(sealed), *chat_asks(*calls).packets])


def strict_openrouter(*replies: Reply) -> Strict:
    return Strict("/chat/completions", faults_of, *replies)
