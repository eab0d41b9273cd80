"""What `make` sets up: a server does not need what development needs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
COLLECT_S = 300
NEEDS_BUILT = ("tests/client", "tests/examples", "tests/page")
"""The tests that use the page, or the TypeScript client, once they run."""


def list_installs(folder: Path, target: str) -> list[str]:
    """Return the installations that a target would make in a fresh clone, without making them."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    done = subprocess.run(["make", "-n", target], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return re.findall(r"pip install (.*)", done.stdout)


def test_serving_installs_the_server_and_no_development_extras(tmp_path: Path) -> None:
    for target in ("serve", "shop"):
        installed = list_installs(tmp_path, target)
        assert any("-e '.[server,mcp]'" in line for line in installed), installed
        assert not any("dev" in line or "smollm" in line for line in installed), installed


def test_everything_that_is_installed_is_held_to_the_constraints(tmp_path: Path) -> None:
    installed = list_installs(tmp_path, "check")
    assert any("-e '.[dev]'" in line for line in installed)
    assert all("-c constraints.txt" in line for line in installed), installed


def test_the_tests_are_collected_in_a_clone_where_nothing_has_been_built(tmp_path: Path) -> None:
    built = shutil.ignore_patterns("node_modules", "dist", "__pycache__", ".venv*", ".git", ".hypothesis")
    for name in ("bench", "docs", "examples", "tests", "web"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=built)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("page", "__pycache__"))
    for name in ("Makefile", "README.md", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *NEEDS_BUILT]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=COLLECT_S, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert "test_visitors.py" in done.stdout
