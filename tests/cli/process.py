"""The `toolyard` command in processes of its own, waited for with bounds."""

import json
import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import cast

PATIENCE_S = 60.0
DROPPED = ("TOOLYARD_", "OPENAI_", "OLLAMA_", "EDITOR", "VISUAL")
NO_OLLAMA = "http://127.0.0.1:9/v1"


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    errors: str


def environment(folder: Path, **more: str) -> dict[str, str]:
    """That of a person whose home is this folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
    return {
        **kept,
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "COLUMNS": "100",
        "OLLAMA_BASE_URL": NO_OLLAMA,
        **more,
    }


def toolyard(folder: Path, *words: str, typed: str = "", **more: str) -> Done:
    """Run a command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "toolyard", *words],
        cwd=folder,
        env=environment(folder, **more),
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


class Serving:
    """A server in a process of its own; what it says is read as it comes."""

    def __init__(self, folder: Path, words: Sequence[str], more: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "toolyard", "serve", "--port", "0", *words]
        env = environment(folder, **more)
        self.process = subprocess.Popen(command, cwd=folder, env=env, stdout=-1, stderr=-1, text=True)
        self.url = ""
        self.said: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._errors: list[str] = []
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self._errors += lines

    def errors(self) -> list[str]:
        """Return what it wrote to standard error; it must have ended."""
        self._readers[1].join(PATIENCE_S)
        return [line.rstrip("\n") for line in self._errors]

    def kill(self) -> None:
        self.process.kill()
        self.ended()
        for reader in self._readers:
            reader.join(PATIENCE_S)

    def until(self, words: str) -> str:
        """The first line from here on that holds these words."""
        while (line := self._lines.get(timeout=PATIENCE_S)) is not None:
            self.said.append(line)
            if words in line:
                return line
        self.kill()
        raise AssertionError(f"the server ended without saying {words!r}: {self.said} {self._errors}")

    def ended(self) -> int:
        return self.process.wait(PATIENCE_S)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.ended()


@contextmanager
def serving(folder: Path, *words: str, **more: str) -> Generator[Serving]:
    """A server that has said where it listens."""
    server = Serving(folder, words, more)
    try:
        server.url = server.until("listens on").rpartition(" ")[2]
        yield server
    finally:
        server.kill()


def ask(
    url: str, body: object = None, *, method: str = "", headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, object]]:
    """The status and the JSON of an answer."""
    try:
        with _opened(url, body, method, headers) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@contextmanager
def stream(
    url: str, body: object = None, headers: Mapping[str, str] | None = None
) -> Generator[Iterator[dict[str, object]]]:
    """The objects of a stream, as they come."""
    sent = {"accept": "text/event-stream", **(headers or {})}
    with _opened(url, body, "", sent) as answer:
        yield (json.loads(line[6:]) for line in answer if line.startswith(b"data: "))


def until(objects: Iterator[dict[str, object]], **wanted: object) -> dict[str, object]:
    """The first object that has these values."""
    seen: list[dict[str, object]] = []
    for one in objects:
        seen.append(one)
        if wanted.items() <= one.items():
            return one
    raise AssertionError(f"no object with {wanted} came: {seen}")


def said(objects: Sequence[dict[str, object]]) -> str:
    return "".join(str(one["content"]) for one in objects if one["type"] == "text.delta")


def listed(url: str, name: str) -> list[dict[str, str]]:
    """The list of that name in an answer."""
    status, found = ask(url)
    assert status == 200, found
    return cast(list[dict[str, str]], found[name])


def as_curl(line: str, **variables: str) -> tuple[str, dict[str, object], dict[str, str]]:
    """What a printed curl line sends: the address, the JSON body and the headers."""
    words = iter(shlex.split(line))
    assert next(words) == "curl"
    url, body, headers = "", "", dict[str, str]()
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value.replace("$TOOLYARD_KEY", variables.get("TOOLYARD_KEY", ""))
        elif word == "-d":
            body = next(words)
        elif word != "-N":
            url = word
    return url, json.loads(body), headers


def _opened(url: str, body: object, method: str, headers: Mapping[str, str] | None) -> HTTPResponse:
    data = None if body is None else json.dumps(body).encode()
    kind = {} if data is None else {"content-type": "application/json"}
    request = urllib.request.Request(url, data, {**kind, **(headers or {})}, method=method or None)
    return urllib.request.urlopen(request, timeout=PATIENCE_S)
