"""OpenRouter's Chat Completions before models that sign their thoughts: each call comes with the thought before it.

It answers 400 to an assistant message with calls and without `reasoning_details`, to details that are not those which
were sent (in pieces, changed, another model's), and to ones that name a call which is not there.
"""

import json

import msgspec

from wire.strict import Reply, StrictServer
from wire.strict_chat import asks as chat_asks
from wire.strict_chat import faults_of as chat_faults

Detail = dict[str, object]
CLAUDE, GEMINI = "anthropic/claude-sonnet-4.5", "google/gemini-3-pro"
TEXT: Detail = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "id": None}
SUMMARY: Detail = {"type": "reasoning.summary", "format": "openai-responses-v1", "index": 0}
SEALED: Detail = {"type": "reasoning.encrypted", "format": "google-gemini-v1", "index": 0}


def sign_text(text: str) -> Detail:
    return {**TEXT, "text": text, "signature": f"signed {text}"}


def faults_of(body: bytes) -> list[str]:
    """Return why OpenRouter refuses this body; empty if it accepts it."""
    request_body = msgspec.json.decode(body, type=dict[str, object])
    messages = msgspec.convert(request_body["messages"], list[dict[str, object]])
    faults: list[str] = []
    for number, message in enumerate(messages):
        details = msgspec.convert(message.pop("reasoning_details", []), list[Detail])
        calls = msgspec.convert(message.get("tool_calls", []), list[Detail])
        faults += [f"message {number}: {fault}" for fault in _detail_faults(details, calls, str(request_body["model"]))]
    return [*faults, *chat_faults(msgspec.json.encode({**request_body, "messages": messages}))]


def _detail_faults(details: list[Detail], calls: list[Detail], model: str) -> list[str]:
    if calls and not details:
        return ["a call without the thought before it"]
    faults: list[str] = []
    for detail in details:
        if detail["type"] == "reasoning.text" and detail != sign_text(str(detail.get("text"))):
            faults.append("the signature does not fit the thought")
        if detail["type"] == "reasoning.encrypted" and detail.get("id") not in [call["id"] for call in calls]:
            faults.append(f"no call {detail.get('id')!r}")
        if str(detail["format"]).partition("-")[0] != model.partition("/")[0]:
            faults.append("a thought of another model")
    return faults


def encode_thought(*pieces: Detail, text: str = "") -> list[bytes]:
    """A thought, one chunk for each of its pieces."""
    deltas = [{"content": "", "reasoning": text or None, "reasoning_details": [piece]} for piece in pieces]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]


def claude_asks(*calls: tuple[str, object], thought: str) -> Reply:
    """A text in two pieces, then its signature alone."""
    words = [{**TEXT, "text": piece} for piece in (thought[:2], thought[2:])]
    signature = {**TEXT, "signature": f"signed {thought}"}
    return Reply(packets=[*encode_thought(*words, text="x"), *encode_thought(signature), *chat_asks(*calls).packets])


def gemini_asks(*calls: tuple[str, object]) -> Reply:
    """A seal for the first call, by the id that it has there."""
    sealed_detail = {**SEALED, "data": "c2VhbA==", "id": "call_0"}
    return Reply(packets=[*encode_thought(sealed_detail), *chat_asks(*calls).packets])


def strict_openrouter(*replies: Reply) -> StrictServer:
    return StrictServer("/chat/completions", faults_of, *replies)
