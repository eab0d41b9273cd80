"""How the page is built: into the wheel, without Node on the machine; and what is said where it cannot be."""

import shutil
import subprocess
import sys
from pathlib import Path

from cli.process import environment

ROOT = Path(__file__).parents[2]
NOBODY = "http://127.0.0.1:9"
PATIENCE_S = 120.0


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_packages_that_cannot_be_had_are_told_in_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    for name in ("build.py", "package.json", "package-lock.json"):
        shutil.copy2(ROOT / "web" / name, tmp_path)
    offline = {"npm_config_registry": NOBODY, "npm_config_fetch_retries": "0", "npm_config_cache": str(tmp_path / "c")}
    done = run(tmp_path, "build.py", "build", **offline)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("The packages of the web page could not be installed") and "check the network" in last
