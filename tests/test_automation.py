"""The files that other programs read: workflows, Dependabot, pre-commit and compose. What they name has to exist."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [
    *WORKFLOWS,
    *sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")),
    ROOT / ".github" / "dependabot.yml",
    ROOT / ".pre-commit-config.yaml",
    ROOT / "deploy" / "compose.yaml",
]
SCHEMAS = {
    "vendor.compose-spec": [ROOT / "deploy" / "compose.yaml"],
    "vendor.dependabot": [ROOT / ".github" / "dependabot.yml"],
    "vendor.github-workflows": WORKFLOWS,
}
MADE = ("build/", "dist", "src/toolyard/page", "deploy/secrets", "deploy/.env")
"""Places that a target of the Makefile makes, or the person who deploys."""
PATH = re.compile(
    r"(?<![\w./${-])(?:\./|/)?((?:\.ci|\.github|bench|build|deploy|dist|docs|examples|src|tests|web)(?:/[\w.*-]+)+)"
)
TARGET = re.compile(r"\bmake((?: [a-z][a-z-]*)+)")
HOST = re.compile(r"https?://|\b[\w-]+\.(?:io|org|com|dev)\b", re.IGNORECASE)
Yaml = Any


def find_texts(tree: Yaml, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text with the key that it stands under, however deep."""
    if isinstance(tree, dict):
        for name, child in cast(dict[str, Yaml], tree).items():
            yield from find_texts(child, str(name))
    elif isinstance(tree, list):
        for child in cast(list[Yaml], tree):
            yield from find_texts(child, key)
    elif isinstance(tree, str):
        yield key, tree


def find_targets(text: str) -> list[str]:
    return [target for words in TARGET.findall(text) for target in words.split()]


def find_missing_paths(text: str) -> list[str]:
    """Return the paths in the text that are neither in the repository nor made on the way."""
    paths = [path.rstrip(".") for path in PATH.findall(text)]
    return [path for path in paths if not path.startswith(MADE) and not any(ROOT.glob(path))]


def list_make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


def read_commands(file: Path) -> str:
    """Return what the file runs: the steps of a workflow, or the entries of pre-commit."""
    return "\n".join(
        text for key, text in find_texts(yaml.safe_load(file.read_text("utf-8"))) if key in ("run", "entry")
    )


@pytest.mark.parametrize("file", [*WORKFLOWS, ROOT / ".pre-commit-config.yaml"], ids=lambda file: file.name)
def test_a_workflow_runs_targets_that_the_makefile_has(file: Path) -> None:
    targets = find_targets(read_commands(file))
    assert targets
    assert set(targets) <= list_make_targets()


def test_the_same_targets_are_run_as_by_everybody() -> None:
    targets = {target for file in WORKFLOWS for target in find_targets(read_commands(file))}
    assert {"check", "test", "test-clients", "test-wheel", "docs", "package", "sbom"} <= targets
    assert find_targets((ROOT / ".ci" / "run").read_text("utf-8")) == ["check", "test", "test-clients"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_paths_in_a_file_exist(file: Path) -> None:
    assert find_missing_paths(file.read_text("utf-8")) == []


def test_the_folders_and_files_of_dependabot_and_compose_exist() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text("utf-8"))["updates"]
    folders = [folder for update in updates for folder in update.get("directories", [update.get("directory")])]
    assert len(folders) >= 5 and all((ROOT / folder.lstrip("/")).is_dir() for folder in folders)
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))["services"]
    mounted = [volume.partition(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    own = [source for source in mounted if source.startswith("./")]
    assert {"./config", "./Caddyfile"} == set(own)
    assert all((ROOT / "deploy" / source).exists() for source in own)


def test_a_target_or_a_path_that_does_not_exist_is_found() -> None:
    assert not set(find_targets("make chekc test")) <= list_make_targets()
    assert find_missing_paths("file: deploy/Dockerfiel, folder: ./web/src, web/*.json, build/x") == [
        "deploy/Dockerfiel"
    ]


def test_every_action_is_named_by_its_major_version_and_listed_to_be_pinned() -> None:
    texts = [pair for file in WORKFLOWS for pair in find_texts(yaml.safe_load(file.read_text("utf-8")))]
    used = {text for key, text in texts if key == "uses"}
    assert len(used) > 10
    assert [action for action in used if not re.fullmatch(r"[\w-]+/[\w-]+@(release/)?v\d+", action)] == []
    pinning = (ROOT / ".github" / "PINNING.md").read_text("utf-8")
    assert {
        f"{name}@{version}" for name, version in re.findall(r"^\| `([^`]+)` \| (\S+) \|", pinning, re.MULTILINE)
    } == used


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_no_workflow_names_a_host_or_gives_every_job_the_right_to_write(file: Path) -> None:
    text = file.read_text("utf-8")
    assert HOST.findall(text) == []
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


def read_release_jobs() -> dict[str, Yaml]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]


def find_needed(jobs: dict[str, Yaml], name: str) -> set[str]:
    """Return the jobs that end well before this one begins."""
    needs = jobs[name].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(cast(list[str], needs))
    return direct.union(*(find_needed(jobs, other) for other in direct))


def test_nothing_is_attested_or_published_before_the_tests_passed_and_the_variables_are_set() -> None:
    jobs = read_release_jobs()
    writing = [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})]
    assert set(writing) == {"package", "publish", "image"}
    for name in writing:
        assert {"test", "variables"} <= find_needed(jobs, name), name


def test_a_release_without_its_variables_fails_at_once_and_names_each_of_them() -> None:
    jobs = read_release_jobs()
    assert find_needed(jobs, "variables") == set()
    (step,) = jobs["variables"]["steps"]
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    used = set(re.findall(r"\$\{\{ vars\.(\w+) \}\}", text))
    assert step["env"] == {name: f"${{{{ vars.{name} }}}}" for name in used}

    def check(values: dict[str, str]) -> tuple[int, str]:
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(command, env=values, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout

    assert check(dict.fromkeys(used, "value")) == (0, "")
    for name in used:
        code, output = check({**dict.fromkeys(used, "value"), name: ""})
        assert code == 1 and output.count("::error::") == 1 and f" {name} " in output


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_file_fits_the_schema_of_the_program_that_reads_it(schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, SCHEMAS[schema])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_compose_file_with_a_wrong_key_does_not_fit(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "compose.yaml").read_text("utf-8")
    (tmp_path / "compose.yaml").write_text(text.replace("depends_on:", "depend_on:"))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [*command, tmp_path / "compose.yaml"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1 and "depend_on" in done.stdout
