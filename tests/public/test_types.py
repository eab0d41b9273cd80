"""The types of the public API, as a user's strict type checker sees them in the built and installed wheel."""

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

ROOT = Path(__file__).parents[2]
USES = Path(__file__).parent / "uses"
EXPECTED = re.compile(r"# error: (\w+)$")
TIMEOUT_S = 300.0
Report = set[tuple[str, int, str]]
"""The file, the line and the rule of each error."""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a Python module. The wheel is built without the web page, which has nothing to do with types."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "HATCH_BUILD_NO_HOOKS": "true"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def user_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel. The packages that it needs are those of these tests."""
    folder = tmp_path_factory.mktemp("user")
    built = run(ROOT, "hatchling", "build", "-t", "wheel", "-d", str(folder))
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    (site_packages,) = (folder / "venv").glob("**/site-packages")
    options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--disable-pip-version-check")
    installed = run(folder, "pip", "install", *options, "--target", str(site_packages), str(wheel))
    assert installed.returncode == 0, installed.stderr
    (site_packages / "dependencies.pth").write_text(str(Path(msgspec.__file__).parents[1]))
    return folder


def check_types(environment: Path, folder: Path) -> tuple[Report, str]:
    """Return the errors that a strict check of a folder reports, and their messages."""
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    python = environment / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    checked = run(folder, "basedpyright", "--outputjson", "--pythonpath", str(python))
    diagnostics = json.loads(checked.stdout)["generalDiagnostics"]
    errors = {
        (Path(diagnostic["file"]).name, diagnostic["range"]["start"]["line"] + 1, diagnostic.get("rule", ""))
        for diagnostic in diagnostics
    }
    return errors, "\n".join(diagnostic["message"] for diagnostic in diagnostics)


def expected_errors(file: Path) -> Iterator[tuple[str, int, str]]:
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        if match := EXPECTED.search(line):
            yield file.name, number, match[1]


def test_a_strict_type_check_against_the_wheel_finds_every_wrong_use_and_no_other(
    user_environment: Path, tmp_path: Path
) -> None:
    for file in USES.glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text("utf-8"), "utf-8")
    wrong_uses = set(expected_errors(USES / "wrong.py"))
    assert len(wrong_uses) > 30
    errors, messages = check_types(user_environment, tmp_path)
    assert errors == wrong_uses, messages
