"""Try a wheel as somebody does who has nothing else: no clone, an empty home, an empty environment.

    python -m package.try_wheel WHEEL --uv PATH [--picture FILE]

It installs the wheel for each Python from 3.11 to 3.14 that is installed, and with uvx, and each time starts a server,
loads the page, gets an answer and approves a call. Then it takes a picture of the page and measures what the library
alone needs, which the README tells. `make test-wheel` runs it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from cli.process import ServerProcess, start_server
from package.newcomer import ask_for_stock, order_and_approve, read_page, take_screenshot, write_tools

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = "[server,mcp]"
KEPT = re.compile(r"PATH|LANG|LC_\w+|PIP_\w+|UV_\w+|SSL_\w+|\w+_proxy", re.IGNORECASE)
"""The variables that stay: how to find programs, and how to reach a package index."""
SIZE_TOLERANCE = 0.15


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def find_pythons() -> Iterator[tuple[str, str]]:
    """Yield each version that is installed, on the PATH or by pyenv, with its interpreter."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for version in VERSIONS:
        candidates = [shutil.which(f"python{version}"), *sorted(versions.glob(f"{version}.*/bin/python"))]
        for candidate in filter(None, candidates):
            code = "import sys; print('{}.{}'.format(*sys.version_info))"
            done = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
            if done.stdout.strip() == version:
                yield version, str(candidate)
                break


def use(server: ServerProcess) -> str:
    read_page(server.url)
    ask_for_stock(server.url)
    return order_and_approve(server.url)


def try_with_pip(wheel: Path, python: str, folder: Path, picture: Path | None) -> None:
    run(python, "-m", "venv", folder / "environment")
    installed = folder / "environment" / "bin" / "python"
    run(installed, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}{EXTRAS}")
    home = folder / "home"
    home.mkdir()
    with start_server(home, "--tools", write_tools(home), python=installed) as server:
        conversation = use(server)
        if picture is not None:
            take_screenshot(server.url, conversation, picture)


def try_with_uvx(wheel: Path, uv: Path, folder: Path) -> None:
    program = ("tool", "run", "--from", f"{wheel}[server]", "toolyard")
    with start_server(folder, "--tools", write_tools(folder), python=uv, program=program) as server:
        use(server)
        server.stop()


def measure_library(wheel: Path, uv: Path, folder: Path) -> tuple[int, float]:
    """Return how many packages the wheel without extras installs, itself among them, and their megabytes."""
    run(uv, "venv", "--quiet", "--python", sys.executable, folder)
    run(uv, "pip", "install", "--quiet", "--link-mode", "copy", "--python", folder / "bin" / "python", wheel)
    (site_packages,) = folder.glob("lib/*/site-packages")
    size = sum(file.stat().st_size for file in site_packages.rglob("*") if file.is_file())
    return len(list(site_packages.glob("*.dist-info"))), size / 1e6


def check_readme(packages: int, megabytes: float) -> None:
    told = re.search(r"(\d+) packages with (\d+) MB", (ROOT / "README.md").read_text("utf-8"))
    if told is None or int(told[1]) != packages or abs(int(told[2]) - megabytes) > SIZE_TOLERANCE * megabytes:
        sys.exit(f"The README has to say that the library is {packages} packages with {megabytes:.0f} MB.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Try a wheel in empty environments.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--uv", type=Path, required=True)
    parser.add_argument("--picture", type=Path, default=Path("page.png"))
    options = parser.parse_args()
    wheel, uv, picture = options.wheel.resolve(), options.uv.absolute(), options.picture.absolute()
    pythons = list(find_pythons())
    if not pythons:
        sys.exit("There is no Python from 3.11 to 3.14.")
    with TemporaryDirectory() as place:
        folder = Path(place)
        kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
        os.environ.clear()
        os.environ.update(kept, HOME=place)
        os.chdir(place)
        for version, python in pythons:
            (folder / version).mkdir()
            is_first = version == pythons[0][0]
            try_with_pip(wheel, python, folder / version, picture if is_first else None)
            print(f"Python {version}: page, answer and approval from {wheel.name}{EXTRAS}", flush=True)
        missing = [version for version in VERSIONS if version not in dict(pythons)]
        if missing:
            print(f"Not installed here, so not tried: Python {', '.join(missing)}")
        print(f"Picture of the page: {picture}")
        (folder / "uvx").mkdir()
        try_with_uvx(wheel, uv, folder / "uvx")
        print("uvx: page, answer and approval")
        packages, megabytes = measure_library(wheel, uv, folder / "library")
        print(f"The library alone: {packages} packages with {megabytes:.0f} MB")
        check_readme(packages, megabytes)


if __name__ == "__main__":
    main()
