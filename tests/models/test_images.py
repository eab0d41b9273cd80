"""Images of a user or in a result reach a model that looks at them, on every wire; what is no image never does."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from toolyard.core.items import Call, FilePart, ImagePart, Item, Part, Result, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.models import anthropic, gemini, openai_chat, openai_responses
from wire import strict_chat, strict_gemini, strict_messages, strict_responses
from wire.everything import ADD
from wire.local import NOW, offer, request, user
from wire.test_gemini_types import wrong as gemini_wrong
from wire.test_messages_types import wrong as messages_wrong
from wire.test_request_types import wrong as chat_wrong
from wire.test_responses_types import wrong as responses_wrong

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n....").decode()
SHOWN = ImagePart(url=f"data:image/png;base64,{PNG}")
JUNK: tuple[Part, ...] = (
    ImagePart(url="data:image/png;base64,AAAA"),
    ImagePart(url=f"data:image/svg+xml;base64,{PNG}"),
    ImagePart(url="data:image/png;base64,not base64"),
    ImagePart(url="data:image/png,plain"),
    ImagePart(url="file:///etc/passwd"),
    FilePart(url=f"data:image/png;base64,{PNG}", name="a.png"),
)


@dataclass(frozen=True)
class Wire:
    to_wire: Callable[[ModelRequest, str], bytes]
    faults_of: Callable[[bytes], list[str]]
    wrong: Callable[[Any], list[str]]
    model: str
    blind: str = ""
    """A model that does not look at images in results."""


WIRES = {
    "chat": Wire(openai_chat.to_wire, strict_chat.faults_of, chat_wrong, "gpt-4o", "deepseek-chat"),
    "responses": Wire(
        openai_responses.to_wire, strict_responses.faults_of, responses_wrong, "gpt-5-mini", "gpt-3.5-turbo"
    ),
    "messages": Wire(anthropic.to_wire, strict_messages.faults_of, messages_wrong, "claude"),
    "gemini": Wire(gemini.to_wire, strict_gemini.faults_of, gemini_wrong, strict_gemini.MODEL, "gemini-2.5-pro"),
}
each = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def history(*parts: Part) -> list[Item]:
    call = Call(id="c1", at=NOW, tool="add", arguments={"a": 1})
    drawn = Result(id="c1.result", at=NOW, call_id="c1", tool="add", outcome="ok", content="[an image]", parts=parts)
    return [user("draw"), call, drawn, user("thanks", "u2")]


def sent(wire: Wire, *parts: Part, model: str = "") -> bytes:
    return wire.to_wire(request(history(*parts), tools=offer(ADD)), model or wire.model)


@each
def test_an_image_is_shown_to_a_model_that_looks(wire: Wire) -> None:
    body = sent(wire, SHOWN, *JUNK)
    assert (wire.faults_of(body), wire.wrong(json.loads(body))) == ([], [])
    assert body.count(PNG.encode()) == 1 and b"[an image]" in body


@each
def test_what_is_no_image_changes_nothing(wire: Wire) -> None:
    assert sent(wire, *JUNK) == sent(wire)


@pytest.mark.parametrize("wire", [wire for wire in WIRES.values() if wire.blind], ids=lambda wire: wire.blind)
def test_a_model_that_may_not_look_is_told_in_words(wire: Wire) -> None:
    assert sent(wire, SHOWN, model=wire.blind) == sent(wire, model=wire.blind)


three = pytest.mark.parametrize("wire", [WIRES[name] for name in ("chat", "responses", "gemini")])


def shows(*parts: Part) -> list[Item]:
    return [UserMessage(id="u1", at=NOW, parts=parts), user("and now?", "u2")]


@three
@pytest.mark.parametrize("junk", [part for part in JUNK if isinstance(part, ImagePart) and part.url.startswith("data")])
def test_what_a_user_shows_that_is_no_image_is_told_in_words(wire: Wire, junk: ImagePart) -> None:
    body = wire.to_wire(request(shows(SHOWN, junk)), wire.model)
    assert (wire.faults_of(body), wire.wrong(json.loads(body))) == ([], [])
    assert body.count(PNG.encode()) == 1 and body.count(b"[an image that cannot be shown]") == 1
    assert junk.url.encode() not in body


@three
def test_what_a_user_shows_elsewhere_is_sent_as_it_is(wire: Wire) -> None:
    assert b'"https://example.org/a.png"' in wire.to_wire(
        request(shows(ImagePart(url="https://example.org/a.png"))), wire.model
    )


@three
def test_a_jpeg_is_known_by_its_short_name_too(wire: Wire) -> None:
    jpeg = base64.b64encode(b"\xff\xd8\xff....").decode()
    body = wire.to_wire(request(shows(ImagePart(url=f"data:image/jpg;base64,{jpeg}"))), wire.model)
    assert jpeg.encode() in body and b"image/jpeg" in body and b"image/jpg" not in body
