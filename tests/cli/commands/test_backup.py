"""`toolyard backup`: a copy of the store of a running server, from which another server starts."""

from pathlib import Path

from cli.process import fetch_list, request_json, run_toolyard, start_server


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
