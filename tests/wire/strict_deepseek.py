"""DeepSeek's Chat Completions as its thinking models take it: OpenAI's, and each call comes with the thought before it.

It answers 400 to an assistant message with calls and without `reasoning_content`, and to one the other way round.
"""

import json

import msgspec

from wire.strict import Reply, StrictServer
from wire.strict_chat import asks as chat_asks
from wire.strict_chat import faults_of as chat_faults

THOUGHT = "Hm, 加."


def faults_of(body: bytes) -> list[str]:
    """Return why DeepSeek refuses this body; empty if it accepts it."""
    request_body = msgspec.json.decode(body, type=dict[str, object])
    messages = msgspec.convert(request_body["messages"], list[dict[str, object]])
    faults: list[str] = []
    for number, message in enumerate(messages):
        thought = message.pop("reasoning_content", None)
        if message.get("tool_calls") and not isinstance(thought, str):
            faults.append(f"Missing `reasoning_content` field in the assistant message at message index {number}.")
        elif thought is not None and not message.get("tool_calls"):
            faults.append(f"`reasoning_content` without a call at message index {number}")
    return [*faults, *chat_faults(msgspec.json.encode({**request_body, "messages": messages}))]


def asks(*calls: tuple[str, object], thought: str = THOUGHT) -> Reply:
    """A thought in two pieces, then the calls."""
    thoughts = [{"reasoning_content": piece, "content": None} for piece in (thought[:2], thought[2:])]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in thoughts]
    packets = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    return Reply(packets=[*packets, *chat_asks(*calls).packets])


def strict_deepseek(*replies: Reply) -> StrictServer:
    return StrictServer("/chat/completions", faults_of, *replies)
