"""The lines between `model` and `llama_process`. A line without a chunk ends an answer."""

from msgspec import Struct


class LlamaRequest(Struct, frozen=True, tag="asked"):
    number: int
    body: dict[str, object]


class LlamaStop(Struct, frozen=True, tag="stop"):
    number: int


class LlamaLine(Struct, frozen=True):
    number: int
    chunk: dict[str, object] | None = None
