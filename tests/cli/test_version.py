"""Which commit `toolyard --version` names: that of the build, else that of the clone, else none."""

import subprocess
from pathlib import Path

import pytest

from toolyard.cli import main
from toolyard.cli.version import describe_version, read_commit

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b.example")


def make_clone(folder: Path) -> tuple[Path, str]:
    """Return a package in a clone with one commit, and that commit."""
    package = folder / "src" / "toolyard"
    package.mkdir(parents=True)
    for command in (("init", "--quiet"), ("commit", "--quiet", "--allow-empty", "-m", "one")):
        subprocess.run([*GIT, *command], cwd=folder, check=True)
    done = subprocess.run([*GIT, "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    return package, done.stdout.strip()


def test_a_build_names_its_commit_also_inside_a_clone(tmp_path: Path) -> None:
    package, _ = make_clone(tmp_path)
    (package / "commit.txt").write_text("0123456789ab\n")
    assert read_commit(package) == "0123456789ab"


def test_a_clone_names_its_commit(tmp_path: Path) -> None:
    package, commit = make_clone(tmp_path)
    assert read_commit(package) == commit[:12]


def test_a_package_inside_another_repository_names_no_commit(tmp_path: Path) -> None:
    make_clone(tmp_path)
    package = tmp_path / "venv" / "lib" / "toolyard"
    package.mkdir(parents=True)
    assert read_commit(package) == ""


def test_the_command_prints_the_version_and_the_commit(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{describe_version()}\n"
