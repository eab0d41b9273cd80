"""The lines between `local.py` and the process that runs llama.cpp. A line without a chunk is an answer's end."""

from msgspec import Struct


class LlamaRequest(Struct, frozen=True, tag="asked"):
    number: int
    body: dict[str, object]


class LlamaStop(Struct, frozen=True, tag="stop"):
    number: int


class LlamaLine(Struct, frozen=True):
    number: int
    chunk: dict[str, object] | None = None
