"""Local models that play what they are given, in a process of their own as the real one."""

import json
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from toolyard.models.local import Local

RUNNER = (str(Path(__file__).parent / "played_llama.py"),)
USAGE: dict[str, object] = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


def build_chunks(*texts: str, finish: str = "stop") -> list[object]:
    text_chunks: list[object] = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    return [*text_chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, USAGE]


def build_scripted_model(chunks: Sequence[object]) -> Local:
    with NamedTemporaryFile("w", suffix=".gguf", delete=False) as file:
        json.dump(list(chunks), file)
    model = Local(file.name, RUNNER)
    weakref.finalize(model, os.unlink, file.name)
    return model
