"""What `make` sets up: a server does not need what development needs."""

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


def planned(folder: Path, target: str) -> list[str]:
    """Return the installations that a target would make in a fresh clone, without making them."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    done = subprocess.run(["make", "-n", target], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return re.findall(r"pip install (.*)", done.stdout)


def test_serving_installs_the_server_and_no_development_extras(tmp_path: Path) -> None:
    for target in ("serve", "shop"):
        installed = planned(tmp_path, target)
        assert any("-e '.[server,mcp]'" in line for line in installed), installed
        assert not any("dev" in line or "smollm" in line for line in installed), installed


def test_everything_that_is_installed_is_held_to_the_constraints(tmp_path: Path) -> None:
    installed = planned(tmp_path, "check")
    assert any("-e '.[dev]'" in line for line in installed)
    assert all("-c constraints.txt" in line for line in installed), installed
