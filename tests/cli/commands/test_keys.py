"""`toolyard keys`: in the store while no server runs, through the server while one does."""

import asyncio
import re
from pathlib import Path

from cli.process import request_json, run_toolyard, start_server
from toolyard.core.store import Key
from toolyard.stores.sqlite import SqliteStore


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_a_key_that_is_added_while_the_server_runs_is_asked_for_at_once(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        tools = f"{server.url}/ai/tools/health"
        assert request_json(tools)[0] == 200
        added = run_toolyard(tmp_path, "keys", "add", "me", "--user", "me", "--role", "admin")
        assert added.code == 0, added.errors
        secret = added.out.splitlines()[0]
        assert request_json(tools)[0] == 401
        assert request_json(tools, headers=bearer("ty_wrong"))[0] == 401
        assert request_json(tools, headers=bearer(secret))[0] == 200
        refused = run_toolyard(tmp_path, "keys", "list")
        assert refused.code == 1 and "send your API key" in refused.errors
        second = run_toolyard(tmp_path, "keys", "add", "shop", "--user", "shop", "--trusted", "--key", secret)
        assert second.code == 0, second.errors
        listed = run_toolyard(tmp_path, "keys", "list", TOOLYARD_KEY=secret)
        assert [line.split()[:3] for line in listed.out.splitlines()[1:]] == [
            ["me", "me", "admin"],
            ["shop", "shop", "-"],
        ]
        assert secret not in listed.out
        last = run_toolyard(tmp_path, "keys", "revoke", "me", TOOLYARD_KEY=secret)
        assert last.code == 1 and "the last one of an administrator of the server" in last.errors
        assert (
            run_toolyard(tmp_path, "keys", "add", "you", "--user", "you", "--role", "admin", "--key", secret).code == 0
        )
        assert run_toolyard(tmp_path, "keys", "revoke", "me", TOOLYARD_KEY=secret).code == 0
        assert request_json(tools, headers=bearer(secret))[0] == 401
        assert request_json(tools, headers=bearer(second.out.splitlines()[0]))[0] == 200


def test_without_a_server_keys_are_kept_in_the_store(tmp_path: Path) -> None:
    first = run_toolyard(tmp_path, "keys", "add", "ann", "--user", "ann", "--tenant", "acme", "--division", "shoes")
    assert first.code == 0 and "It cannot manage keys" in first.out
    again = run_toolyard(tmp_path, "keys", "add", "ann", "--user", "ann")
    assert again.code == 1 and "there is a key named 'ann' already" in again.errors
    secret = first.out.splitlines()[0]
    assert secret.startswith("ty_")
    assert secret.encode() not in b"".join(file.read_bytes() for file in (tmp_path / "data" / "toolyard").iterdir())
    with start_server(tmp_path) as server:
        assert request_json(f"{server.url}/ai/tools/health")[0] == 401
        assert request_json(f"{server.url}/keys", headers=bearer(secret))[0] == 403
    assert run_toolyard(tmp_path, "keys", "revoke", "ann").code == 0
    assert "There are no keys" in run_toolyard(tmp_path, "keys", "list").out


def test_the_last_administrator_is_not_revoked_in_the_store_either(tmp_path: Path) -> None:
    for name, *roles in (("me", "--role", "admin"), ("shop",)):
        assert run_toolyard(tmp_path, "keys", "add", name, "--user", name, *roles).code == 0
    refused = run_toolyard(tmp_path, "keys", "revoke", "me")
    assert refused.code == 1 and "would lock everybody out" in refused.errors
    (tmp_path / "toolyard.toml").write_text(
        '[jwt]\nalgorithm = "HS256"\nsecret = "s3cret-s3cret-s3cret-s3cret-s3cret"\n'
    )
    assert run_toolyard(tmp_path, "keys", "revoke", "me").code == 0, "tokens may name administrators"
    (tmp_path / "toolyard.toml").unlink()
    assert run_toolyard(tmp_path, "keys", "revoke", "shop").code == 0
    assert "There are no keys" in run_toolyard(tmp_path, "keys", "list").out


def test_keys_of_the_file_count_when_a_key_is_added_to_the_store(tmp_path: Path) -> None:
    (tmp_path / "toolyard.toml").write_text('[[keys]]\nname = "boss"\nhash = "0"\nuser = "boss"\nroles = ["admin"]\n')
    taken = run_toolyard(tmp_path, "keys", "add", "boss", "--user", "other")
    assert taken.code == 1 and "boss" in taken.errors and "unexpected" not in taken.errors
    added = run_toolyard(tmp_path, "keys", "add", "shop", "--user", "shop")
    assert added.code == 0, added.errors


def test_a_key_is_rotated_with_an_overlap_and_listed_with_its_limits(tmp_path: Path) -> None:
    admin = run_toolyard(tmp_path, "keys", "add", "me", "--user", "me", "--role", "admin").out.splitlines()[0]
    limits = ("--expires", "30d", "--tool", "stock_*", "--server-tools", "none", "--origin", "https://shop.example")
    added = run_toolyard(tmp_path, "keys", "add", "shop", "--user", "shop", *limits)
    assert added.code == 0, added.errors
    old = added.out.splitlines()[0]
    with start_server(tmp_path) as server:
        tools = f"{server.url}/tools"
        page = {"origin": "https://shop.example"}
        assert request_json(tools, headers=bearer(old))[0] == 403
        rotated = run_toolyard(tmp_path, "keys", "rotate", "shop", "--overlap", "24h", TOOLYARD_KEY=admin)
        assert rotated.code == 0 and "The old one is accepted for 24h more" in rotated.out
        new = rotated.out.splitlines()[0]
        assert [request_json(tools, headers=bearer(secret) | page)[0] for secret in (old, new)] == [200, 200]
        listed = run_toolyard(tmp_path, "keys", "list", TOOLYARD_KEY=admin).out
        shop = next(line for line in listed.splitlines() if line.startswith("shop"))
        assert "stock_* server-tools=none https://shop.example" in shop and "never" not in shop, (
            "it expires, and was used"
        )
    again = run_toolyard(tmp_path, "keys", "rotate", "shop")
    assert again.code == 0 and "no longer accepted" in again.out
    with start_server(tmp_path) as server:
        secrets = (old, new, again.out.splitlines()[0])
        statuses = [request_json(f"{server.url}/tools", headers=bearer(secret) | page)[0] for secret in secrets]
        assert statuses == [401, 401, 200]
    for flags in (("--expires", "soon"), ("--not-before", "99"), ("--expires", "-5d")):
        wrong = run_toolyard(tmp_path, "keys", "add", "x", "--user", "x", *flags)
        assert wrong.code == 2, wrong.errors


def test_a_key_that_would_have_expired_already_is_refused(tmp_path: Path) -> None:
    past = run_toolyard(tmp_path, "keys", "add", "x", "--user", "x", "--expires", "2020-01-31")
    assert past.code == 2 and "--expires is in the past: 2020-01-31" in past.errors
    never_valid = ("--expires", "2h", "--not-before", "3h")
    refused = run_toolyard(tmp_path, "keys", "add", "x", "--user", "x", *never_valid)
    assert refused.code == 2 and "--expires must be after --not-before" in refused.errors
    assert "There are no keys" in run_toolyard(tmp_path, "keys", "list").out


async def save_expired_key(directory: Path) -> None:
    store = await SqliteStore.open(directory / "data" / "toolyard" / "toolyard.db")
    await store.save_key(Key(name="old", hash="h", user="old", expires_at=1_600_000_000.0, created_at=1.0))
    await store.close()


def test_the_list_says_which_keys_are_not_accepted_now_and_which_old_secrets_still_are(tmp_path: Path) -> None:
    for name, *flags in (("me",), ("later", "--not-before", "2999-01-01")):
        assert run_toolyard(tmp_path, "keys", "add", name, "--user", name, "--role", "admin", *flags).code == 0
    added = run_toolyard(tmp_path, "keys", "add", "root", "--user", "root", "--role", "admin").out.splitlines()[0]
    asyncio.run(save_expired_key(tmp_path))
    assert run_toolyard(tmp_path, "keys", "rotate", "me", "--overlap", "24h").code == 0
    stored = run_toolyard(tmp_path, "keys", "list").out
    rows = {line.split()[0]: line for line in stored.splitlines()}
    assert "not valid before 2999-01-01 00:00" in rows["later"]
    assert "expired" in rows["old"]
    assert re.search(r"valid; old secret until \d{4}-\d\d-\d\d \d\d:\d\d", rows["me"])
    assert "  valid  " in rows["root"] and "old secret" not in rows["root"]
    with start_server(tmp_path):
        served = run_toolyard(tmp_path, "keys", "list", TOOLYARD_KEY=added).out
        assert [line.split()[0] for line in served.splitlines() if "old secret until" in line] == ["me"]
        assert [line.split()[0] for line in served.splitlines() if "not valid before" in line] == ["later"]


def test_an_unknown_name_is_answered_with_the_command_that_lists_them(tmp_path: Path) -> None:
    hint = "toolyard: there is no key named 'nope'; `toolyard keys list` shows the names\n"
    assert "There are no keys" in run_toolyard(tmp_path, "keys", "list").out
    assert run_toolyard(tmp_path, "keys", "revoke", "nope").errors == hint
    assert not (tmp_path / "data").exists(), "there was nothing to store"
    secret = run_toolyard(tmp_path, "keys", "add", "me", "--user", "me", "--role", "admin").out.splitlines()[0]
    commands = [
        ("keys", "revoke", "nope"),
        ("keys", "rotate", "nope"),
        ("access", "explain", "--key", "nope", "--tool", "find_tools"),
    ]
    for command in commands[:2]:
        assert run_toolyard(tmp_path, *command).errors == hint
    with start_server(tmp_path):
        for command in commands:
            done = run_toolyard(tmp_path, *command, TOOLYARD_KEY=secret)
            assert (done.code, done.errors) == (1, hint)
