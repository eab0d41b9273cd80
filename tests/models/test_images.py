"""Images of a user or in a result reach a model that looks at them, on every wire; what is no image never does."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from toolyard.core.items import Call, FilePart, ImagePart, Item, Part, Result, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.models import chat as openai_chat
from toolyard.models import gemini
from toolyard.models import messages as anthropic
from toolyard.models import responses as openai_responses
from wire import strict_chat, strict_gemini, strict_messages, strict_responses
from wire.everything import ADD
from wire.local import NOW, offer, request, user
from wire.test_gemini_types import type_mismatches as gemini_mismatches
from wire.test_messages_types import type_mismatches as messages_mismatches
from wire.test_request_types import type_mismatches as chat_mismatches
from wire.test_responses_types import type_mismatches as responses_mismatches


def encode_base64(body: bytes) -> str:
    return base64.b64encode(body).decode()


def png(width: int, height: int) -> bytes:
    """As far as it is looked at."""
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")


def jpeg(width: int, height: int) -> bytes:
    """With a segment before the one that says how large it is."""
    segments = b"\xff\xe0\0\x04ab" + b"\xff\xc2\0\x11\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return b"\xff\xd8" + segments + b"\0" * 9


def padded_jpeg(width: int, height: int) -> bytes:
    """With fill bytes before the marker of the frame, and a marker without a length."""
    return jpeg(width, height).replace(b"\xff\xc2", b"\xff\x01\xff\xff\xff\xc2")


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + width.to_bytes(2, "little") + height.to_bytes(2, "little")


def webp(width: int, height: int, chunk: bytes = b"VP8X") -> bytes:
    """As it may be written in three ways."""
    sides = {
        b"VP8X": b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
        b"VP8 ": b"\0\0\0\x9d\x01\x2a" + width.to_bytes(2, "little") + height.to_bytes(2, "little"),
        b"VP8L": b"\x2f" + (width - 1 | height - 1 << 14).to_bytes(4, "little"),
    }
    return b"RIFF\0\0\0\0WEBP" + chunk + b"\0\0\0\0" + sides[chunk]


PNG, JPEG, SVG = encode_base64(png(2, 3)), encode_base64(jpeg(2, 3)), encode_base64(b"<svg/>")
WEBP, WAV = encode_base64(b"RIFF\0\0\0\0WEBPVP8 "), encode_base64(b"RIFF\0\0\0\0WAVEfmt ")
SHOWN_IMAGE = ImagePart(url=f"data:image/png;base64,{PNG}")
JUNK: tuple[Part, ...] = (
    ImagePart(url="data:image/png;base64,AAAA"),
    ImagePart(url=f"data:image/svg+xml;base64,{SVG}"),
    ImagePart(url=f"data:image/webp;base64,{WAV}"),
    ImagePart(url="data:image/png;base64,not base64"),
    ImagePart(url="data:image/png,plain"),
    ImagePart(url="file:///etc/passwd"),
    FilePart(url=f"data:image/png;base64,{PNG}", name="a.png"),
)


@dataclass(frozen=True)
class ImageWire:
    to_wire: Callable[[ModelRequest, str], bytes]
    faults_of: Callable[[bytes], list[str]]
    type_mismatches: Callable[[Any], list[str]]
    model: str
    blind: str = ""
    """A model that does not look at images in results."""


WIRES = {
    "chat": ImageWire(openai_chat.to_wire, strict_chat.faults_of, chat_mismatches, "gpt-4o", "deepseek-chat"),
    "responses": ImageWire(
        openai_responses.to_wire, strict_responses.faults_of, responses_mismatches, "gpt-5-mini", "gpt-3.5-turbo"
    ),
    "messages": ImageWire(anthropic.to_wire, strict_messages.faults_of, messages_mismatches, "claude"),
    "gemini": ImageWire(
        gemini.to_wire, strict_gemini.faults_of, gemini_mismatches, strict_gemini.MODEL, "gemini-2.5-pro"
    ),
}
each_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def build_history(*parts: Part) -> list[Item]:
    call = Call(id="c1", at=NOW, tool="add", arguments={"a": 1})
    image_result = Result(
        id="c1.result", at=NOW, call_id="c1", tool="add", outcome="ok", content="[an image]", parts=parts
    )
    return [user("draw"), call, image_result, user("thanks", "u2")]


def build_result_body(wire: ImageWire, *parts: Part, model: str = "") -> bytes:
    return wire.to_wire(request(build_history(*parts), tools=offer(ADD)), model or wire.model)


@each_wire
def test_an_image_is_shown_to_a_model_that_looks(wire: ImageWire) -> None:
    body = build_result_body(wire, SHOWN_IMAGE, *JUNK)
    assert (wire.faults_of(body), wire.type_mismatches(json.loads(body))) == ([], [])
    assert body.count(PNG.encode()) == 1 and b"[an image]" in body


@each_wire
def test_what_is_no_image_changes_nothing(wire: ImageWire) -> None:
    assert build_result_body(wire, *JUNK) == build_result_body(wire)


@pytest.mark.parametrize("wire", [wire for wire in WIRES.values() if wire.blind], ids=lambda wire: wire.blind)
def test_a_model_that_may_not_look_is_told_in_words(wire: ImageWire) -> None:
    assert build_result_body(wire, SHOWN_IMAGE, model=wire.blind) == build_result_body(wire, model=wire.blind)


def build_user_history(*parts: Part) -> list[Item]:
    return [UserMessage(id="u1", at=NOW, parts=parts), user("and now?", "u2")]


def build_user_body(wire: ImageWire, *parts: Part) -> bytes:
    """What is sent of what a user shows."""
    body = wire.to_wire(request(build_user_history(*parts)), wire.model)
    assert (wire.faults_of(body), wire.type_mismatches(json.loads(body))) == ([], [])
    return body


INLINE = [part for part in JUNK if isinstance(part, ImagePart) and part.url.startswith("data")]


@each_wire
@pytest.mark.parametrize("junk", [*INLINE, FilePart(url=f"data:image/png;base64,{SVG}", name="a.png")])
def test_what_a_user_shows_that_is_no_image_is_told_in_words(wire: ImageWire, junk: ImagePart | FilePart) -> None:
    body = build_user_body(wire, SHOWN_IMAGE, junk)
    assert body.count(PNG.encode()) == 1 and body.count(b"[an image that cannot be shown: it is no PNG, JPEG") == 1
    assert junk.url.encode() not in body and f'"{junk.url.partition(",")[2]}"'.encode() not in body


@each_wire
@pytest.mark.parametrize(("data", "kind"), [(PNG, b"image/png"), (JPEG, b"image/jpeg"), (WEBP, b"image/webp")])
@pytest.mark.parametrize("declared", ["image/png", "image/jpg", "image/x-icon", "application/octet-stream"])
def test_an_image_is_what_its_bytes_say_whatever_it_is_called(
    wire: ImageWire, data: str, kind: bytes, declared: str
) -> None:
    body = build_user_body(wire, ImagePart(url=f"data:{declared};base64,{data}"))
    assert data.encode() in body and kind in body
    assert declared.encode() in (kind, b"application/octet-stream") or declared.encode() not in body


@each_wire
def test_a_file_that_is_an_image_is_shown_as_one(wire: ImageWire) -> None:
    url = f"data:image/png;base64,{PNG}"
    assert build_user_body(wire, FilePart(url=url, name="a.png")) == build_user_body(wire, ImagePart(url=url))


@each_wire
def test_what_a_user_shows_elsewhere_is_sent_as_it_is(wire: ImageWire) -> None:
    assert b'"https://example.org/a.png"' in build_user_body(wire, ImagePart(url="https://example.org/a.png"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (png(8_001, 10), "it is 8,001 pixels long, and 8,000 are taken; ask for a smaller one]"),
        (jpeg(10, 9_000), "it is 9,000 pixels long, and 8,000 are taken; ask for a smaller one]"),
        (padded_jpeg(10, 9_000), "it is 9,000 pixels long, and 8,000 are taken; ask for a smaller one]"),
        (gif(10, 8_001), "it is 8,001 pixels long, and 8,000 are taken; ask for a smaller one]"),
        (webp(8_001, 10), "it is 8,001 pixels long, and 8,000 are taken; ask for a smaller one]"),
        (webp(10, 8_001, b"VP8 "), "it is 8,001 pixels long, and 8,000 are taken; ask for a smaller one]"),
        (webp(10, 8_001, b"VP8L"), "it is 8,001 pixels long, and 8,000 are taken; ask for a smaller one]"),
        (
            png(9, 9) + b"x" * 4_000_000,
            "it has 5,333,368 characters in base64, and 5,242,880 are taken; ask for a smaller",
        ),
    ],
    ids=["png", "jpeg", "padded jpeg", "gif", "webp", "lossy", "lossless", "bytes"],
)
def test_an_image_that_is_too_large_for_anthropic_is_told_in_words_and_left_out_of_a_result(
    body: bytes, words: str
) -> None:
    wire, large = WIRES["messages"], ImagePart(url=f"data:image/png;base64,{encode_base64(body)}")
    assert f"[an image that cannot be shown: {words}".encode() in build_user_body(wire, large)
    assert build_result_body(wire, large) == build_result_body(wire)
    assert encode_base64(body).encode() in build_user_body(WIRES["chat"], large)


def test_gemini_takes_no_gif() -> None:
    wire, moving = WIRES["gemini"], ImagePart(url=f"data:image/gif;base64,{encode_base64(gif(2, 3))}")
    assert b"[an image that cannot be shown: it is no PNG, JPEG or WebP in base64" in build_user_body(wire, moving)
    assert build_result_body(wire, moving) == build_result_body(wire)


@each_wire
def test_an_svg_file_is_a_text(wire: ImageWire) -> None:
    assert b"<svg/>" in build_user_body(wire, FilePart(url=f"data:image/svg+xml;base64,{SVG}", name="a.svg"))


@pytest.mark.parametrize(
    "body",
    [
        *(png(8_000, 8_000), jpeg(8_000, 1), padded_jpeg(8_000, 1), gif(1, 8_000), jpeg(1, 1)[:12], png(1, 1)[:17]),
        *(webp(8_000, 1), webp(1, 8_000, b"VP8 "), webp(8_000, 8_000, b"VP8L")),
        *(webp(1, 1)[:28], webp(1, 1, b"VP8 ")[:27]),
    ],
)
def test_an_image_that_is_not_surely_too_large_is_shown(body: bytes) -> None:
    assert encode_base64(body).encode() in build_user_body(
        WIRES["messages"], ImagePart(url=f"data:image/png;base64,{encode_base64(body)}")
    )


BINARY = encode_base64(b"PK\x03\x04\xff\0")


@each_wire
@pytest.mark.parametrize(
    "url",
    [f"data:application/pdf;base64,{BINARY}", "data:application/pdf;base64,?", "data:text/plain;base64,AA=="],
)
def test_a_file_that_is_not_what_it_is_called_is_told_in_words(wire: ImageWire, url: str) -> None:
    body = build_user_body(wire, FilePart(url=url, name="a.pdf"))
    assert b"[file a.pdf: " in body and b"which cannot be read here; ask for its text]" in body
    assert url.encode() not in body and b'"application/pdf"' not in body


@each_wire
@pytest.mark.parametrize("end", [b"\xff", b"in plain letters"])
def test_a_pdf_is_known_by_its_bytes(wire: ImageWire, end: bytes) -> None:
    pdf = encode_base64(b"\n%PDF-1.7 " + end)
    body = build_user_body(wire, FilePart(url=f"data:application/octet-stream;base64,{pdf}", name="a"))
    assert pdf.encode() in body and b"application/pdf" in body and b"octet-stream" not in body


@each_wire
def test_a_text_is_told_in_its_own_words(wire: ImageWire) -> None:
    assert b"a,b" in build_user_body(wire, FilePart(url="data:application/json;base64,YSxi", name="a.csv"))
