"""Hooks of the documentation build (`make docs`): pages that live outside of docs/."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
OUTSIDE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "examples/household/README.md": "project/household.md",
    "examples/shop/README.md": "project/shop.md",
    "examples/warehouse/README.md": "project/warehouse.md",
    "web/client/README.md": "reference/typescript.md",
}
"""Pages that stand elsewhere in the repository, and where the site has them."""
FROM_OUTSIDE = {site: source for source, site in OUTSIDE.items()}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, site in OUTSIDE.items():
        files.append(File.generated(config, site, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = FROM_OUTSIDE.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return LINK.sub(lambda link: site_link(link[1], link[2], source, page.file.src_uri), markdown)


def site_link(text: str, url: str, source: str, page: str) -> str:
    """Return a link of the repository as a link of the site. A file that the site does not have becomes plain text."""
    path, mark, anchor = url.partition("#")
    if not path or ":" in path:
        return f"[{text}]({url})"
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if target == "README.md":
        place = "index.md"
    elif target in OUTSIDE:
        place = OUTSIDE[target]
    elif target.startswith("docs/"):
        place = target.removeprefix("docs/")
    else:
        return text
    return f"[{text}]({posixpath.relpath(place, posixpath.dirname(page) or '.')}{mark}{anchor})"
