"""Images and files that are sent with a chat message: their bytes decide what they are."""

import base64

import pytest

from surfaces.talk import Json, open_api_client
from toolyard.core.items import FilePart, ImagePart, Part, TextPart, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.surfaces.conversations.attachments import MAX_ATTACHED_BYTES, MAX_ATTACHMENTS
from toolyard.testing import Turn, say

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 16
WEBP = b"RIFF\x10\0\0\0WEBPVP8 "
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
        (b"GIF89a" + b"\0" * 8, "x.png", "image/gif"),
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
        both = {"content": "x", "attachments_of": "first", "attachments": [attach(b"x")]}
        await http.post(f"{path}/chat", both, expect=422)
        other = await http.create_conversation()
        await http.post(f"{other}/chat", {"content": "x", "attachments_of": "first"}, expect=422)
        assert len(received) == 3
