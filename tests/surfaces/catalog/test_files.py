"""The text of files: documents are read in a child process, whose bounds hold whatever the document does."""

import io
import os
import sys
import zipfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from surfaces.api_client import Json, build_yard
from surfaces.http_server import serve_yard
from toolyard.core.errors import Invalid, Refused
from toolyard.engine.documents import DocumentReader
from toolyard.engine.documents.reader import MAX_TEXT_BYTES

STAND_IN = """
import os, sys, time

class StreamInfo:
    def __init__(self, extension, charset):
        self.extension = extension

class Converted:
    def __init__(self, markdown):
        self.markdown = markdown

class MarkItDown:
    def __init__(self, enable_plugins):
        assert enable_plugins is False

    def convert_stream(self, stream, stream_info):
        body = stream.read()
        if b"ENVIRONMENT" in body:
            return Converted(repr(dict(os.environ)))
        if b"LOOP" in body:
            while True:
                pass
        if b"MEMORY" in body:
            return Converted("x" * 10**11)
        if b"LONG" in body:
            return Converted("x" * 10_000_000)
        if b"WRITE" in body:
            with open(os.path.join(os.path.dirname(__file__), "written"), "wb") as file:
                file.write(b"xx")
        if b"DIE" in body:
            os.abort()
        return Converted(f"{stream_info.extension}: {len(body)} bytes")
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a stand-in for the package that reads documents before all others, and return its folder."""
    (tmp_path / "markitdown.py").write_text(STAND_IN, "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def build_document(folder: str, *, pages: int = 0, expanded: int = 10) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{folder}document.xml", b" " * expanded)
        for number in range(pages):
            archive.writestr(f"{folder}slides/slide{number}.xml", b"")
    return body.getvalue()


@pytest.mark.parametrize(("folder", "kind"), [("word/", ".docx"), ("xl/", ".xlsx"), ("ppt/", ".pptx")])
async def test_the_content_of_a_document_says_what_it_is(stand_in: Path, folder: str, kind: str) -> None:
    document = build_document(folder)
    assert await DocumentReader().read(document) == f"{kind}: {len(document)} bytes"


async def test_the_child_has_no_environment_and_writes_no_files(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "sk-secret" in os.environ["OPENAI_API_KEY"]
    assert "sk-secret" not in await DocumentReader().read(b"<p>ENVIRONMENT</p>")
    with pytest.raises(Invalid):
        await DocumentReader().read(b"<p>WRITE</p>")
    written = stand_in / "written"
    assert not written.exists() or not written.read_bytes()


@pytest.mark.parametrize(
    ("document", "why", "reason"),
    [
        (build_document("ppt/", pages=501), "501 slides or sheets", "pages"),
        (build_document("word/", expanded=2_000), "expands to too much", "expanded"),
        (build_document("other/"), "none of Word", "archive"),
        (b"PK\x03\x04damaged", "damaged", "damaged"),
        (b"<p>MEMORY</p>", "too much memory", "cost"),
        (b"<p>LOOP</p>", "too much time", "cost"),
        (b"<p>DIE</p>", "too much time or memory", "cost"),
        (b"<p>LONG</p>", f"{MAX_TEXT_BYTES:,} bytes of text", "text"),
    ],
)
async def test_a_document_beyond_the_bounds_is_refused_in_words(
    stand_in: Path, document: bytes, why: str, reason: str
) -> None:
    with pytest.raises(Invalid, match=why) as refusal:
        await DocumentReader(max_seconds=2, max_expanded_bytes=1_000).read(document)
    assert refusal.value.details == {"field": "body", "reason": reason}


async def test_without_the_extra_documents_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(Refused, match=r"toolyard\[files\]"):
        await DocumentReader().read(build_document("word/"))


@asynccontextmanager
async def open_post(max_file_bytes: int = 1_000) -> AsyncGenerator[aiohttp.ClientSession]:
    yard = build_yard([], max_file_bytes=max_file_bytes)
    async with yard, serve_yard(yard) as url, aiohttp.ClientSession(url) as session:
        yield session


async def post_file(session: aiohttp.ClientSession, body: bytes, name: str = "") -> tuple[int, Json]:
    async with session.post("/files/text", params={"name": name}, data=io.BytesIO(body)) as response:
        return response.status, await response.json()


async def test_the_route_returns_text_with_its_tokens_and_refuses_the_rest(stand_in: Path) -> None:
    async with open_post() as session:
        status, table = await post_file(session, b"\xef\xbb\xbfItem,Price\nMilk,1.20\n", "prices.csv")
        assert (status, table["text"], table["tokens"]) == (200, "Item,Price\nMilk,1.20\n", 5)
        document = build_document("word/")
        status, report = await post_file(session, document, "report.docx")
        assert (status, report["text"]) == (200, f".docx: {len(document)} bytes")
        assert (await post_file(session, b"<p>x</p>", "Page.HTML"))[1]["text"].startswith(".html")
        assert (await post_file(session, b"x" * 1_001))[0] == 413
        for body in (b"", b"\x89PNG\r\n\x1a\n", b"%PDF-1.7", b"\xff\xfe\x00"):
            assert (await post_file(session, body))[0] == 422
        async with session.get("/me") as response:
            me = await response.json()
        assert (me["max_file_bytes"], me["reads_documents"]) == (1_000, True)


async def test_a_file_may_be_larger_than_other_bodies() -> None:
    async with open_post(20_000_000) as session:
        status, answer = await post_file(session, b"x" * 19_999_999)
        assert (status, answer["tokens"]) == (200, 4_999_999)
        async with session.post("/conversations", data=io.BytesIO(b"x" * 9_000_000)) as response:
            assert response.status == 413
