"""How the page is built: into the wheel, without Node on the machine; and what is said where it cannot be."""

import os
import re
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

from cli.process import build_environment, start_server

ROOT = Path(__file__).parents[2]
NO_REGISTRY = "http://127.0.0.1:9"
TIMEOUT_S = 600.0


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=build_environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_packages_that_cannot_be_had_are_told_in_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    for name in ("build.py", "package.json", "package-lock.json"):
        shutil.copy2(ROOT / "web" / name, tmp_path)
    offline = {
        "npm_config_registry": NO_REGISTRY,
        "npm_config_fetch_retries": "0",
        "npm_config_cache": str(tmp_path / "c"),
    }
    done = run(tmp_path, "build.py", "build", **offline)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("The packages of the web page could not be installed") and "check the network" in last


def test_a_wheel_holds_the_page_and_what_is_installed_from_it_serves_it(tmp_path: Path) -> None:
    packages = ROOT / "web" / "node_modules"
    assert packages.is_dir(), "the packages of the web page are not there: run make page first"
    source, installed = tmp_path / "source", tmp_path / "installed"
    left_out = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in ("src", "web"):
        shutil.copytree(ROOT / name, source / name, ignore=left_out)
    shutil.rmtree(source / "src" / "toolyard" / "page")  # the build has to make it anew
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, source)
    (source / "web" / "node_modules").symlink_to(packages)
    os.utime(source / "web" / "package-lock.json", (0, 0))  # older than the packages: they are not to be fetched again
    built = run(source, "-m", "hatchling", "build", "-t", "wheel")
    assert built.returncode == 0, built.stderr
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(installed)
    with start_server(tmp_path, PYTHONPATH=str(installed)) as server:
        with urllib.request.urlopen(f"{server.url}/", timeout=TIMEOUT_S) as answer:
            page = answer.read().decode()
        (script,) = re.findall(r'src="\./(assets/[^"]+\.js)"', page)
        with urllib.request.urlopen(f"{server.url}/{script}", timeout=TIMEOUT_S) as answer:
            assert answer.read() == (installed / "toolyard" / "page" / script).read_bytes()
