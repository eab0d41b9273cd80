"""What `toolyard --version` prints: the version, and the commit that it was built from."""

import subprocess
from importlib.metadata import version
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def describe_version() -> str:
    """Return the version, with the commit in parentheses if it is known."""
    commit = read_commit()
    return f"toolyard {version('toolyard')}" + (f" ({commit})" if commit else "")


def read_commit(package: Path = PACKAGE) -> str:
    """Return the commit that a build has put into the package, else that of the clone; empty if there is neither."""
    try:
        return (package / "commit.txt").read_text("ascii").strip()
    except OSError:
        return _ask_git(package.parents[1])


def _ask_git(clone: Path) -> str:
    # The package may be a folder inside somebody else's repository, whose commit says nothing about it.
    if not (clone / ".git").exists():
        return ""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(command, cwd=clone, capture_output=True, text=True, timeout=2, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
