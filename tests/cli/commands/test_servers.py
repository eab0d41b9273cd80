"""`toolyard servers`: MCP servers of a running server, added, looked at, called, accepted, stopped, removed, kept."""

import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from cli.process import PROGRAM, TIMEOUT_S, CommandResult, build_environment, run_toolyard, start_server
from forked_python import ForkedPython
from venues.mcp.modern import SIGNED, serve_blocking
from venues.mcp.plain import PlainServer


def parse_rows(result: CommandResult) -> list[list[str]]:
    assert result.code == 0, result.errors
    return [line.split() for line in result.out.splitlines()[1:]]


def wait_until_running(folder: Path, name: str) -> None:
    """A server of the store or of a file is started beside everything else."""
    until = time.monotonic() + TIMEOUT_S
    while (listed := parse_rows(run_toolyard(folder, "servers", "list"))[0][:2]) != [name, "running"]:
        assert listed == [name, "starting"] and time.monotonic() < until, listed


def test_a_server_is_added_called_stopped_started_and_removed_and_outlives_a_restart(tmp_path: Path) -> None:
    with start_server(tmp_path):
        assert "There are no servers" in run_toolyard(tmp_path, "servers", "list").out
        command = (sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC")
        words = ("servers", "add", "time", "--trust", "--", *command)
        added = run_toolyard(tmp_path, *words)
        assert added.code == 0, added.errors
        assert [row[:3] for row in parse_rows(run_toolyard(tmp_path, "servers", "list"))] == [["time", "running", "2"]]
        listed = parse_rows(run_toolyard(tmp_path, "servers", "tools", "time"))
        assert {row[0] for row in listed} == {"convert_time", "get_current_time"}
        called = run_toolyard(tmp_path, "servers", "call", "time", "get_current_time", '{"timezone": "Asia/Tokyo"}')
        assert called.code == 0 and "Asia/Tokyo" in called.out, called
        assert run_toolyard(tmp_path, "servers", "stop", "time").code == 0
        assert parse_rows(run_toolyard(tmp_path, "servers", "list"))[0][1] == "stopped"
        assert run_toolyard(tmp_path, "servers", "start", "time").code == 0
    with start_server(tmp_path):
        wait_until_running(tmp_path, "time")
        assert run_toolyard(tmp_path, "servers", "free-names", "time").code == 1, "it is still there"
        removed = run_toolyard(tmp_path, "servers", "remove", "time")
        assert removed.code == 0 and "`toolyard servers free-names time`" in removed.out, removed
        assert "There are no servers" in run_toolyard(tmp_path, "servers", "list").out
        freed = run_toolyard(tmp_path, "servers", "free-names", "time")
        assert freed.out == "Names of the server 'time' freed: convert_time, get_current_time\n", freed


def test_what_changed_of_a_server_is_shown_and_accepted(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    with start_server(tmp_path):
        assert run_toolyard(tmp_path, "servers", "add", "plain", "--", plain.spec.command, *plain.spec.args).code == 0
        plain.notes.with_suffix(".changed").write_text("Looks, and tells everybody.")
        assert run_toolyard(tmp_path, "servers", "stop", "plain").code == 0
        assert run_toolyard(tmp_path, "servers", "start", "plain").code == 0
        states = {row[0]: "changed" in row for row in parse_rows(run_toolyard(tmp_path, "servers", "tools", "plain"))}
        assert states["look"] and not states["add"]
        assert run_toolyard(tmp_path, "servers", "reject", "plain", "look").out == "Kept out: look\n"
        assert run_toolyard(tmp_path, "servers", "accept", "plain").out == "There is nothing to accept.\n"
        accepted = run_toolyard(tmp_path, "servers", "accept", "plain", "look")
        assert "+" in accepted.out and "Looks, and tells everybody." in accepted.out
        assert accepted.out.splitlines()[-1] == "Accepted: look"
        assert run_toolyard(tmp_path, "servers", "accept", "plain").out == "There is nothing to accept.\n"


def test_a_person_signs_in_through_the_loopback_and_out_again(tmp_path: Path) -> None:
    with start_server(tmp_path), serve_blocking(SIGNED) as server:
        added = run_toolyard(tmp_path, "servers", "add", "mail", "--url", server.spec().url, "--trust")
        assert "sign in: `toolyard servers login mail`" in added.out, added
        words, env = [*PROGRAM, "servers", "login", "mail", "--no-browser"], build_environment(tmp_path)
        with ForkedPython(words, cwd=tmp_path, env=env, stdout=-1, stderr=-1, text=True) as login:
            assert login.stdout is not None and login.stdout.readline() == "Sign in at this address:\n"
            page = str(login.stdout.readline()).strip()
            back = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page).query))["redirect_uri"]
            for wrong, status in ((f"{back}?code=x&state=y", 400), (f"{back}s", 404)):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(wrong, timeout=TIMEOUT_S)
                assert refused.value.code == status
                refused.value.close()
            with urllib.request.urlopen(page, timeout=TIMEOUT_S) as answer:
                assert "You can close this page" in answer.read().decode()
            out, errors = login.communicate(timeout=TIMEOUT_S)
        assert (login.returncode, out) == (0, "Signed in to 'mail': it is running\n"), errors
        assert run_toolyard(tmp_path, "servers", "call", "mail", "mailbox").out == "the mailbox of ann\n"
        assert "login mail" in run_toolyard(tmp_path, "servers", "logout", "mail").out


def test_what_cannot_be_done_is_told_with_what_to_do(tmp_path: Path) -> None:
    assert "start one with `toolyard serve`" in run_toolyard(tmp_path, "servers", "list").errors
    with start_server(tmp_path):
        assert "name a command after --" in run_toolyard(tmp_path, "servers", "add", "empty").errors
        assert "nowhere" in run_toolyard(tmp_path, "servers", "start", "nowhere").errors
        assert "must be a JSON object" in run_toolyard(tmp_path, "servers", "call", "x", "y", "[").errors


def test_an_mcp_json_that_the_configuration_names_is_started(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    servers = {"mcpServers": {"plain": {"command": plain.spec.command, "args": list(plain.spec.args)}}}
    (tmp_path / "mcp.json").write_text(json.dumps(servers))
    (tmp_path / "toolyard.toml").write_text('mcp_json = "mcp.json"\n')
    doctor = run_toolyard(tmp_path, "doctor", "--config", "toolyard.toml")
    assert "plain: " in doctor.out, doctor
    with start_server(tmp_path, "--config", "toolyard.toml"):
        wait_until_running(tmp_path, "plain")


def test_options_may_follow_the_name_and_a_command_that_is_missing_is_an_error(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    with start_server(tmp_path) as server:
        words = ("servers", "add", "plain", "--trust", "--server", server.url, "--", plain.spec.command)
        added = run_toolyard(tmp_path, *words, *plain.spec.args)
        assert added.code == 0 and "it is running" in added.out, added
        missing = run_toolyard(tmp_path, "servers", "add", "bad", "--trust", "--", "no-such-runner", "mcp-server-time")
        assert (missing.code, missing.out) == (1, "")
        assert "no-such-runner is not on the PATH" in missing.errors
        started = run_toolyard(tmp_path, "servers", "start", "bad")
        assert started.code == 1 and "no-such-runner is not on the PATH" in started.errors
    with start_server(tmp_path) as server:
        server.read_until("curl -N")
        text = "\n".join(server.output_lines)
        count = count_plain_tools(text)
        assert count > 1 and f"tools    {count}: {count} of plain" in text
        assert "bad is" in text and "no-such-runner is not on the PATH" in text


def count_plain_tools(text: str) -> int:
    """Return how many tools of the server `plain` the banner reports."""
    return int(text.partition(" of plain")[0].rpartition(" ")[2])
