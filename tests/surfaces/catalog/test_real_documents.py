"""Small real documents, read by the real package of the extra `files`, within the bounds of its child process."""

import asyncio
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from toolyard.engine.documents import DocumentReader

ENVIRONMENT = Path(__file__).parents[3] / ".venv-files"
"""The extra in an environment of its own, which `make test-clients` sets up: it is large."""
WRITE = """
import sys
from openpyxl import Workbook
from pptx import Presentation

book = Workbook()
book.active.append(["item", "price"])
book.active.append(["milk", 1.5])
book.save(sys.argv[1])
slides = Presentation()
slides.slides.add_slide(slides.slide_layouts[5]).shapes.title.text = "Opening hours"
slides.save(sys.argv[2])
"""
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
LETTER = {
    "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" ContentType="text/xml"/>'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
    f'<Relationship Id="a" Type="{OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
    "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t>Returns take 14 days.</w:t></w:r></w:p>'
    "</w:body></w:document>",
}


def build_letter() -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for name, text in LETTER.items():
            archive.writestr(name, text)
    return body.getvalue()


async def test_word_excel_powerpoint_and_html_become_markdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, slides = tmp_path / "prices.xlsx", tmp_path / "hours.pptx"
    # In a process of its own: the packages of the other environment must not replace those of the tests.
    await asyncio.to_thread(
        subprocess.run, [ENVIRONMENT / "bin" / "python", "-c", WRITE, table, slides], check=True, timeout=60
    )
    (packages,) = ENVIRONMENT.glob("lib/python*/site-packages")
    monkeypatch.setattr(sys, "path", [str(packages), *sys.path])
    reader = DocumentReader()
    assert await reader.read(build_letter()) == "Returns take 14 days."
    assert "| item | price |\n| --- | --- |\n| milk | 1.5 |" in await reader.read(table.read_bytes())
    assert "# Opening hours" in await reader.read(slides.read_bytes())
    assert await reader.read(b"<h1>Hours</h1><p>Nine to six</p>") == "# Hours\n\nNine to six"
