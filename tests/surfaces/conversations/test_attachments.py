"""Images and files that are sent with a chat message: their bytes decide what they are."""

import base64
import struct
from collections.abc import Callable

import pytest

from surfaces.api_client import Json, open_api_client
from toolyard.core.items import FilePart, ImagePart, Part, TextPart, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.surfaces.conversations.attachments import MAX_ATTACHED_BYTES, MAX_ATTACHMENTS, MAX_PIXELS
from toolyard.testing import Turn, say


def build_png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\2\0\0\0"


def build_jpeg(width: int, height: int) -> bytes:
    # An application segment that holds a frame of a thumbnail, fill bytes, and the frame.
    thumbnail = b"\xff\xd8\xff\xc0\0\x11\x08\0\1\0\1"
    segment = b"\xff\xe0" + struct.pack(">H", 2 + len(thumbnail)) + thumbnail
    return b"\xff\xd8" + segment + b"\xff\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width) + b"\3"


def build_gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0" * 8


def build_webp(chunk: bytes, body: bytes) -> bytes:
    return b"RIFF\x40\0\0\0WEBP" + chunk + struct.pack("<I", len(body)) + body


def build_lossy_webp(width: int, height: int) -> bytes:
    return build_webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height))


def build_lossless_webp(width: int, height: int) -> bytes:
    return build_webp(b"VP8L", b"\x2f" + struct.pack("<I", width - 1 | height - 1 << 14))


def build_extended_webp(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return build_webp(b"VP8X", b"\0\0\0\0" + size)


BUILDERS = (build_png, build_jpeg, build_gif, build_lossy_webp, build_lossless_webp, build_extended_webp)
PNG, JPEG, GIF, WEBP = build_png(3, 2), build_jpeg(3, 2), build_gif(3, 2), build_lossy_webp(3, 2)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


def attach(body: bytes, name: str = "") -> dict[str, str]:
    return {"data": base64.b64encode(body).decode(), "name": name}


def build_data_url(kind: str, body: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(body).decode()}"


async def send(*attachments: Json, content: str = "", expect: int = 200) -> tuple[tuple[Part, ...], Json]:
    """Send a chat message; return the parts that the model has got, and the answer."""
    received: list[tuple[Part, ...]] = []

    def answer(request: ModelRequest) -> Turn:
        (message,) = (item for item in request.history if isinstance(item, UserMessage))
        received.append(message.parts)
        return say("I see.")

    async with open_api_client(answer) as http:
        path = await http.create_conversation()
        body = {"content": content, "attachments": list(attachments)}
        reply = await http.post(f"{path}/chat", body, expect=expect)
        assert expect == 200 or not await http.list_messages(path), "nothing was stored"
    return (received[0] if received else ()), reply


async def test_a_message_carries_images_and_files_to_the_model_after_its_text() -> None:
    parts, _ = await send(attach(PNG, "a.png"), attach(b"%PDF-1.7 x", "b.pdf"), attach(b"c\n", "c.md"), content="Look")
    assert parts == (
        TextPart(text="Look"),
        ImagePart(url=build_data_url("image/png", PNG)),
        FilePart(url=build_data_url("application/pdf", b"%PDF-1.7 x"), name="b.pdf"),
        FilePart(url=build_data_url("text/plain", b"c\n"), name="c.md"),
    )


@pytest.mark.parametrize(
    ("body", "name", "kind"),
    [
        (JPEG, "note.txt", "image/jpeg"),
        (WEBP, "x", "image/webp"),
        (GIF, "x.png", "image/gif"),
        (SVG, "logo.svg", "text/plain"),
        (b"<!doctype html><script>alert(1)</script>", "photo.png", "text/plain"),
        (b"plain", "photo.jpg", "text/plain"),
    ],
)
async def test_the_bytes_decide_what_an_attachment_is_whatever_its_name_says(body: bytes, name: str, kind: str) -> None:
    (part,), _ = await send(attach(body, name))
    assert isinstance(part, ImagePart if kind.startswith("image/") else FilePart)
    assert part.url == build_data_url(kind, body)


@pytest.mark.parametrize(
    ("attachments", "words"),
    [
        ([attach(b"\0\1\2 a program", "photo.png")], "convert it"),
        ([attach(b"\xff\xfe latin")], "convert it"),
        ([attach(b"")], "empty"),
        ([{"data": "not base64!"}], "base64"),
        ([attach(b"x")] * (MAX_ATTACHMENTS + 1), f"at most {MAX_ATTACHMENTS}"),
        ([attach(b"x" * (MAX_ATTACHED_BYTES // 2 + 1))] * 2, "5 MiB"),
        ([], "must not be empty"),
    ],
)
async def test_what_no_model_could_read_or_is_too_much_is_refused_in_words(attachments: Json, words: str) -> None:
    parts, reply = await send(*attachments, expect=422)
    assert not parts and words in str(reply["error"]) + str(reply["details"])


async def test_the_attachments_of_an_earlier_message_are_sent_again_with_other_words() -> None:
    received: list[tuple[Part, ...]] = []

    def answer(request: ModelRequest) -> Turn:
        received.append([item.parts for item in request.history if isinstance(item, UserMessage)][-1])
        return say("I see.")

    async with open_api_client(answer) as http:
        path = await http.create_conversation()
        files = [attach(PNG), attach(b"milk", "list.txt")]
        await http.post(f"{path}/chat", {"content": "Look", "attachments": files, "message_id": "first"})
        for content in ("Look again", ""):
            await http.post(f"{path}/rewind", {"to": ""})  # the first message is in a branch now
            await http.post(f"{path}/chat", {"content": content, "attachments_of": "first"})
            texts = (TextPart(text=content),) if content else ()
            assert received[-1] == (*texts, *received[0][1:]) and len(received[0]) == 3
        answers = [message["id"] for message in await http.list_messages(path) if message["role"] == "assistant"]
        for wrong in ("nothing", answers[0]):
            await http.post(f"{path}/chat", {"content": "x", "attachments_of": wrong}, expect=422)
        other = await http.create_conversation()
        await http.post(f"{other}/chat", {"content": "x", "attachments_of": "first"}, expect=422)
        assert len(received) == 3


async def test_attachments_are_left_out_and_added_when_a_message_is_sent_again() -> None:
    received: list[tuple[Part, ...]] = []

    def answer(request: ModelRequest) -> Turn:
        received.append([item.parts for item in request.history if isinstance(item, UserMessage)][-1])
        return say("I see.")

    async with open_api_client(answer) as http:
        path = await http.create_conversation()
        files = [attach(PNG), attach(b"milk", "list.txt"), attach(b"x" * (MAX_ATTACHED_BYTES // 2), "large.txt")]
        await http.post(f"{path}/chat", {"content": "Look", "attachments": files, "message_id": "first"})
        again = {"content": "Look", "attachments_of": "first"}
        await http.post(f"{path}/rewind", {"to": ""})
        changed = {**again, "attachments_left_out": [0, 2], "attachments": [attach(b"bread", "more.txt")]}
        await http.post(f"{path}/chat", changed)
        added = FilePart(url=build_data_url("text/plain", b"bread"), name="more.txt")
        assert received[-1] == (TextPart(text="Look"), received[0][2], added)
        too_large = attach(b"y" * (MAX_ATTACHED_BYTES // 2))
        for wrong, words in (
            ({**again, "attachments_left_out": [3]}, "3 attachments"),
            ({"content": "x", "attachments_left_out": [0]}, "needs attachments_of"),
            ({**again, "attachments": [attach(b"x")] * (MAX_ATTACHMENTS - 2)}, f"at most {MAX_ATTACHMENTS}"),
            ({**again, "attachments": [too_large]}, "5 MiB"),
        ):
            refused = await http.post(f"{path}/chat", wrong, expect=422)
            assert words in str(refused)
        await http.post(f"{path}/chat", {**again, "attachments_left_out": [2], "attachments": [too_large]})
        assert len(received) == 3


@pytest.mark.parametrize("build", BUILDERS)
async def test_an_image_that_would_fill_the_memory_once_it_is_decoded_is_refused(
    build: Callable[[int, int], bytes],
) -> None:
    side = 16_000
    most = MAX_PIXELS // side
    parts, _ = await send(attach(build(most, side)))
    assert len(parts) == 1
    _, reply = await send(attach(build(most + 1, side)), expect=422)
    assert f"{most + 1} × {side} pixels" in str(reply["details"])


@pytest.mark.parametrize(
    "body",
    [
        b"GIF89a",
        b"GIF89a\0\0\1\0<script>alert(1)</script>",
        b"\x89PNG\r\n\x1a\n" + SVG,
        b"\xff\xd8\xff<script>alert(1)</script>",
        b"\xff\xd8\xff" + b"\xff" * 64,
        build_jpeg(3, 2)[:-5],
        build_png(0, 2),
        build_webp(b"VP9 ", b"\0" * 16),
        b"RIFF\0\0\0\0WEBPVP8L",
    ],
)
async def test_what_only_begins_like_an_image_is_refused(body: bytes) -> None:
    _, reply = await send(attach(body, "photo.png"), expect=422)
    assert "is none, or it is damaged" in str(reply["details"])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\users\\ann\\list.txt", "list.txt"),
        ("a\0b\x1b[31m\r\nx-header: 1.txt", "a b [31m x-header: 1.txt"),
        ("invoice\u202etxt.exe", "invoice txt.exe"),
        ("\u2066\u200ba\u2028b\ufeff", "a b"),
        ("/", ""),
        ("Übersicht 表.md", "Übersicht 表.md"),
    ],
)
async def test_the_name_of_a_file_has_no_folders_and_no_characters_that_deceive(name: str, shown: str) -> None:
    (part,), _ = await send(attach(b"text", name))
    assert isinstance(part, FilePart) and part.name == shown
