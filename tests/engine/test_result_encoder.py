"""Large answers are searched for secrets beside the event loop, and none of their secrets is kept."""

import base64
import threading

import msgspec
import pytest

from toolyard import RedactRules, Tool
from toolyard.app import SystemClock
from toolyard.core.items import Call, FilePart, Result
from toolyard.core.ports import Value
from toolyard.core.tools.redactor import Redacted, Redactor
from toolyard.engine.tools.large_results import MAX_INLINE_BYTES, MAX_REDACTED_BYTES, ResultEncoder
from toolyard.stores.memory import MemoryStore

SECRET = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz"
CALL = Call(id="call_1", at=1.0, tool="look", arguments={})


class RecordingRedactor(Redactor):
    """Remembers the threads that it was used in."""

    def __init__(self) -> None:
        super().__init__(RedactRules(patterns=("github_token",)))
        self.threads = set[int]()

    def redact(self, text: str) -> Redacted:
        if len(text) > MAX_INLINE_BYTES:
            self.threads.add(threading.get_ident())
        return super().redact(text)


async def encode(store: MemoryStore, redactor: Redactor, value: Value) -> Result:
    encoder = ResultEncoder(store, SystemClock())
    return await encoder.encode(CALL, Tool(name="look"), value, conversation="c", redactor=redactor)


@pytest.mark.parametrize("secret", ["", SECRET])
async def test_large_answers_do_not_hold_up_the_event_loop(secret: str) -> None:
    text = f"{secret} " + "x" * 2 * MAX_INLINE_BYTES
    file = FilePart(url=f"data:text/plain;base64,{base64.b64encode(text.encode()).decode()}")
    store, redactor = MemoryStore(), RecordingRedactor()
    result = await encode(store, redactor, Value(value="ok", native=msgspec.json.encode([text]), parts=(file,)))
    assert redactor.threads and threading.get_ident() not in redactor.threads
    native = await store.get_blob("c", result.native)
    assert native is not None and SECRET.encode() not in native
    assert (b"[redacted: github_token]" in native) is bool(secret)
    (part,) = result.parts
    assert isinstance(part, FilePart) and (part == file) is not bool(secret)


async def test_an_answer_with_secrets_and_too_many_texts_is_not_kept_in_the_venues_own_form() -> None:
    texts = ["x" * 40] * (MAX_REDACTED_BYTES // 40)
    store, redactor = MemoryStore(), RecordingRedactor()
    small = await encode(store, redactor, Value(value="ok", native=msgspec.json.encode(texts)))
    left_out = await encode(store, redactor, Value(value="ok", native=msgspec.json.encode([*texts, SECRET])))
    assert small.native and not left_out.native
