"""`toolyard backup`: a copy of the store of a running server, from which another server starts."""

import re
import subprocess
import sys
from pathlib import Path

from cli.process import build_environment, fetch_list, request_json, run_toolyard, start_server

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "backup.md"
STORE = ".local/share/toolyard/toolyard.db"


def test_the_store_of_a_running_server_is_copied_and_restored(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with start_server(tmp_path, "--model", "toolyard:offline") as server:
        status, answer = request_json(f"{server.url}/conversations", {"title": "Groceries"})
        assert status == 201, answer
        copied = run_toolyard(tmp_path, "backup", str(copy))
        assert copied.code == 0, copied.errors
        assert copied.out.startswith("Copied ") and f" to {copy} (" in copied.out
        assert "100 % of" in copied.errors
        (created,) = fetch_list(f"{server.url}/conversations", "conversations")
        assert request_json(f"{server.url}/conversations/{created['id']}", method="DELETE")[0] == 200
    with start_server(tmp_path, "--model", "toolyard:offline", "--store", f"sqlite:///{copy}") as server:
        (restored,) = fetch_list(f"{server.url}/conversations", "conversations")
        assert restored == created


def test_the_commands_of_the_page_restore_the_store_in_its_default_place(tmp_path: Path) -> None:
    section = PAGE.read_text("utf-8").partition("\n## SQLite\n")[2].partition("\n## ")[0]
    backup, restore = re.findall(r"^```\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    *commands, serve = restore.replace("/var/backups", str(tmp_path)).splitlines()
    assert serve == "toolyard serve"
    place = {"XDG_DATA_HOME": ""}
    assert run_toolyard(tmp_path, "keys", "add", "early", "--user", "ann", **place).code == 0
    assert run_toolyard(tmp_path, *backup.replace("/var/backups", str(tmp_path)).split()[1:], **place).code == 0
    assert run_toolyard(tmp_path, "keys", "add", "late", "--user", "ann", **place).code == 0
    toolyard = f'toolyard() {{ {sys.executable} -m toolyard "$@"; }}'
    done = subprocess.run(
        ["bash", "-ec", "\n".join([toolyard, *commands])],
        cwd=tmp_path, env=build_environment(tmp_path, **place), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    keys = run_toolyard(tmp_path, "keys", "list", **place).out
    assert "early" in keys and "late" not in keys
    kept = run_toolyard(tmp_path, "keys", "list", "--store", f"sqlite:///{tmp_path}/{STORE}.broken", **place).out
    assert "late" in kept


def test_a_command_that_cannot_copy_says_why(tmp_path: Path) -> None:
    (tmp_path / "there.db").touch()
    refusals = {
        ("memory:", "copy.db"): "a store in memory has no file",
        ("postgresql://user@host/database", "copy.db"): "pg_dump",
        ("sqlite:///missing.db", "copy.db"): f"there is no file {tmp_path / 'missing.db'}",
        ("sqlite:///there.db", "there.db"): "there.db exists already",
    }
    for (store, file), why in refusals.items():
        refused = run_toolyard(tmp_path, "backup", "--store", store, file)
        assert (refused.code, refused.out) == (2, "") and why in refused.errors, refused
    failed = run_toolyard(tmp_path, "backup", "--store", "sqlite:///there.db", "no/such/folder/copy.db")
    assert failed.code == 1 and "could not be copied" in failed.errors
