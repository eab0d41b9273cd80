"""In place of llama.cpp: plays the chunks that stand in the "model's" file. Strict: a wrong request ends it."""

import sys
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct

from toolyard.models.local.model import LlamaLine, LlamaRequest, LlamaStop


class LlamaMessage(Struct, forbid_unknown_fields=True):
    role: str
    content: str


class LlamaBody(Struct, forbid_unknown_fields=True):
    messages: list[LlamaMessage]
    stream: bool
    max_tokens: int
    stream_options: dict[str, bool]
    grammar: str = ""
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: list[str] = []
    frequency_penalty: float | None = None
    presence_penalty: float | None = None


def find_fault(body: LlamaBody) -> str:
    """What llama.cpp, or a template, would not like about a request."""
    roles = [message.role for message in body.messages if message is not body.messages[0] or message.role != "system"]
    if any(role == other for role, other in pairwise(roles)) or roles[-1] != "user" or "system" in roles:
        return f"the roles do not take turns: {roles}"
    if not body.stream or not 0 < body.max_tokens <= 4096 or not body.stream_options.get("include_usage"):
        return "it must be a stream with a bound, and count tokens"
    return "" if all(message.content for message in body.messages) else "a message is empty"


def write_line(line: LlamaLine) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    chunks = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[dict[str, object] | str])
    assert int(sys.argv[2]) >= 512
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=LlamaRequest | LlamaStop)
        if isinstance(order, LlamaStop):
            continue
        assert not (fault := find_fault(msgspec.convert(order.body, LlamaBody))), fault
        for chunk in chunks:
            if isinstance(chunk, str):
                sys.exit(3)
            write_line(LlamaLine(number=order.number, chunk=chunk))
        write_line(LlamaLine(number=order.number))


if __name__ == "__main__":
    main()
