"""`toolyard serve` as a process: what it says, how it stops, what it refuses and what it takes up again."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from cli.process import Serving, as_curl, ask, listed, said, serving, stream, toolyard, until

HERE = Path(__file__).parents[1]
ROOT = HERE.parents[1]
SLOW = str(HERE / "slow_tools.py")
HOUSEHOLD = str(ROOT / "examples" / "household" / "toolyard.toml")
PROMPT = {"prompt": "add milk to groceries"}


def pipes(folder: Path) -> str:
    for name in ("began", "go_on"):
        os.mkfifo(folder / name)
    return str(folder)


def began(folder: Path) -> str:
    return (folder / "began").read_text()


def go_on(folder: Path) -> None:
    (folder / "go_on").write_text("now")


def answered(server: Serving, conversation: str) -> str:
    """What the model said last, once the run is over."""
    with stream(f"{server.url}/conversations/{conversation}/events") as objects:
        done = until(objects, type="done", ending="done")
    assert done["conversation_id"] == conversation
    return listed(f"{server.url}/conversations/{conversation}/messages", "messages")[-1]["content"]


def logged(objects: Iterator[dict[str, object]], until_type: str) -> list[tuple[object, str, object]]:
    """Number, type and time of the log's entries up to the first of that type; what is fleeting is passed over."""
    found: list[tuple[object, str, object]] = []
    for one in objects:
        if "seq" in one:
            found.append((one["seq"], cast(dict[str, str], one["event"])["type"], one["at"]))
            if found[-1][1] == until_type:
                return found
    raise AssertionError(f"no {until_type} came: {found}")


def test_it_says_where_it_is_and_the_line_that_it_prints_works(tmp_path: Path) -> None:
    with serving(tmp_path, "--config", HOUSEHOLD, HOUSEHOLD_DB=str(tmp_path / "h.db")) as server:
        url, body, headers = as_curl(server.until("curl -N").strip())
        assert url == f"{server.url}/ai/respond"
        with stream(url, body, headers) as objects:
            told = list(objects)
        assert told[-1]["type"] == "done" and told[-1]["ending"] == "done"
        assert "Rent" in said(told)
        text = "\n".join(server.said)
        assert "toolyard:offline: no language model is configured" in text and "tools    10: budget_scan" in text
        assert (tmp_path / "data" / "toolyard" / "toolyard.db").exists()


def test_without_tools_it_tells_how_to_add_the_first_one(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.until("toolyard serve --tools ./my_tools.py")
        start = next(number for number, line in enumerate(server.said) if "from toolyard import" in line)
    shown = [line[13:] for line in server.said[start : start + 7] if "and start with" not in line]
    (tmp_path / "my_tools.py").write_text("\n".join(shown))
    done = toolyard(tmp_path, "tools", "call", "opening_hours", '{"day": "Sunday"}', "--tools", "./my_tools.py")
    assert (done.code, done.out) == (0, "closed\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_when_it_is_told_to(tmp_path: Path, number: int) -> None:
    with serving(tmp_path) as server:
        assert ask(f"{server.url}/healthz")[0] == 200
        assert server.stop(number) == 0
        server.until("Stopped.")
    assert not (tmp_path / "data" / "toolyard" / "toolyard.db.url").exists()


def test_a_stop_ends_streams_refuses_runs_lets_calls_end_and_the_run_goes_on_at_the_next_start(tmp_path: Path) -> None:
    where = pipes(tmp_path)
    with serving(tmp_path, "--tools", SLOW, PIPES=where) as server:
        with stream(f"{server.url}/ai/respond", PROMPT) as objects:
            until(objects, type="tool.status", state="started")
            assert began(tmp_path) == "milk\n"
            server.process.send_signal(signal.SIGTERM)
            last = list(objects)[-1]
            assert (last["type"], last["error_type"]) == ("error", "unavailable")
            assert "come back" in str(last["error"])
        status, refused = ask(f"{server.url}/ai/respond", PROMPT)
        assert (status, refused["error_type"]) == (503, "unavailable")
        go_on(tmp_path)
        assert server.ended() == 0
    with serving(tmp_path, "--tools", SLOW, PIPES=where) as server:
        (only,) = listed(f"{server.url}/conversations", "conversations")
        assert answered(server, only["id"]).startswith("Add to groceries: item milk")


def test_a_killed_server_takes_its_run_up_again_and_who_comes_back_misses_nothing(tmp_path: Path) -> None:
    where = pipes(tmp_path)
    with serving(tmp_path, "--tools", SLOW, PIPES=where) as server:
        assert ask(f"{server.url}/conversations", {"title": "groceries"})[0] == 201
        (conversation,) = listed(f"{server.url}/conversations", "conversations")
        path = f"/conversations/{conversation['id']}"
        with (
            stream(f"{server.url}{path}/events?format=entries") as entries,
            stream(f"{server.url}{path}/chat", {"content": "add milk to groceries"}),
        ):
            before = logged(entries, "call.started")
            assert began(tmp_path) == "milk\n"
            server.process.kill()
            server.ended()
    with serving(tmp_path, "--tools", SLOW, PIPES=where) as server:
        assert began(tmp_path) == "milk\n"
        go_on(tmp_path)
        last = {"last-event-id": str(before[-1][0])}
        with stream(f"{server.url}{path}/events?format=entries", headers=last) as entries:
            after = logged(entries, "run.ended")
        with stream(f"{server.url}{path}/events?format=entries") as entries:
            assert [*before, *after] == logged(entries, "run.ended")
        assert [seq for seq, _, _ in (*before, *after)] == list(range(1, len(before) + len(after) + 1))
        assert answered(server, conversation["id"]).startswith("Add to groceries: item milk")


def test_a_second_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    where = pipes(tmp_path)
    with (
        serving(tmp_path, "--tools", SLOW, PIPES=where) as server,
        stream(f"{server.url}/ai/respond", PROMPT) as objects,
    ):
        until(objects, type="tool.status", state="started")
        began(tmp_path)
        server.process.send_signal(signal.SIGINT)
        until(objects, type="error")
        assert server.stop(signal.SIGINT) == 130


def test_a_second_server_on_the_same_store_is_refused_with_the_owner(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        second = toolyard(tmp_path, "serve", "--port", "0")
        assert second.code == 1
        assert f"in use by process {server.process.pid}" in second.errors
        assert second.errors.count("\n") == 1


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = toolyard(tmp_path, "serve", "--port", port, "--store", "memory:")
    assert (done.code, done.out) == (1, "")
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose another" in done.errors
    assert done.errors.count("\n") == 1


def test_nobody_else_is_let_in_without_a_key(tmp_path: Path) -> None:
    refused = toolyard(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.code == 1
    assert "without a key the server does not listen on 0.0.0.0" in refused.errors
    assert "toolyard keys add" in refused.errors
    secret = toolyard(tmp_path, "keys", "add", "me", "--user", "me").out.splitlines()[0]
    with serving(tmp_path, "--host", "0.0.0.0") as server:
        assert server.url.startswith("http://127.0.0.1:")
        url, body, headers = as_curl(server.until("curl -N").strip(), TOOLYARD_KEY=secret)
        with stream(url, body, headers) as objects:
            until(objects, type="done", ending="done")
        assert ask(url, body)[0] == 401


def test_a_model_without_its_key_is_refused_with_the_variable_to_set(tmp_path: Path) -> None:
    done = toolyard(tmp_path, "serve", "--port", "0", "--store", "memory:", "--model", "openai:gpt-4o-mini")
    assert (done.code, done.out) == (1, "")
    assert done.errors == "toolyard: 'openai:gpt-4o-mini' needs a key: set the environment variable OPENAI_API_KEY\n"
