"""The child process that turns one document into Markdown. It is run by its path, and imports nothing of Toolyard.

The first line of its input is JSON with the folders of modules and the bounds; the document follows. It writes the
text, or exits with REFUSED and writes why: a reason for programs, and a line in words for the person who chose the
document.
"""

import io
import json
import re
import resource
import sys
import zipfile
from importlib import import_module

REFUSED = 3
_KINDS = {"word/": ".docx", "xl/": ".xlsx", "ppt/": ".pptx"}
_PAGE = re.compile(r"(?:ppt/slides/slide|xl/worksheets/sheet)\d+\.xml")


class Refusal(Exception):
    """Why a document is not read: a reason, and the same in words."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(f"{reason}\n{words}")


def find_kind(body: bytes, bounds: dict[str, int]) -> str:
    """Return the ending of a document's kind. Raises Refusal if it is none, or expands to more than the bounds."""
    if not body.startswith(b"PK"):
        return ".html"
    try:
        entries = zipfile.ZipFile(io.BytesIO(body)).infolist()
    except (zipfile.BadZipFile, ValueError):
        raise Refusal("damaged", "it is damaged, or no document") from None
    if len(entries) > bounds["entries"] or sum(entry.file_size for entry in entries) > bounds["expanded_bytes"]:
        raise Refusal("expanded", "it expands to too much: split it, or remove its images")
    pages = sum(_PAGE.fullmatch(entry.filename) is not None for entry in entries)
    if pages > bounds["pages"]:
        raise Refusal("pages", f"it has {pages} slides or sheets, and {bounds['pages']} are the most")
    for folder, kind in _KINDS.items():
        if any(entry.filename.startswith(folder) for entry in entries):
            return kind
    raise Refusal("archive", "it is an archive, and none of Word, Excel or PowerPoint")


def convert(body: bytes, kind: str) -> str:
    """Return the text of a document as Markdown."""
    package = import_module("markitdown")  # not before the folders of modules are known
    info = package.StreamInfo(extension=kind, charset="utf-8" if kind == ".html" else None)
    converted = package.MarkItDown(enable_plugins=False).convert_stream(io.BytesIO(body), stream_info=info)
    return str(converted.markdown)


def main() -> int:
    request = json.loads(sys.stdin.buffer.readline())
    bounds: dict[str, int] = request["bounds"]
    for limit, value in ((resource.RLIMIT_AS, bounds["memory_bytes"]), (resource.RLIMIT_CPU, bounds["seconds"])):
        resource.setrlimit(limit, (value, value))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it has nothing to write to files
    sys.path[:] = request["path"]
    body = sys.stdin.buffer.read()
    try:
        text = convert(body, find_kind(body, bounds))
    except Refusal as refusal:
        text, code = str(refusal), REFUSED
    except MemoryError:
        text, code = "cost\nit takes too much memory: split it", REFUSED
    except Exception:
        text, code = "damaged\nit is damaged, protected by a password, or no document", REFUSED
    else:
        code = 0
    sys.stdout.buffer.write(text.encode(errors="replace"))
    return code


if __name__ == "__main__":
    sys.exit(main())
