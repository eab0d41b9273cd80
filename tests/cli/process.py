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

from forked_python import ForkedPython

TIMEOUT_S = 60.0
DROPPED_PREFIXES = ("TOOLYARD_", "OPENAI_", "OLLAMA_", "EDITOR", "VISUAL")
PROGRAM = ("-m", "toolyard")
NO_OLLAMA = "http://127.0.0.1:9/v1"


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int
    out: str
    errors: str


def build_environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of a user whose home is this folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED_PREFIXES)}
    return {
        **inherited,
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "COLUMNS": "100",
        "OLLAMA_BASE_URL": NO_OLLAMA,
        **more,
    }


def run_toolyard(folder: Path, *arguments: str, input_text: str = "", **more: str) -> CommandResult:
    """Run a command to its end."""
    words, env = (*PROGRAM, *arguments), build_environment(folder, **more)
    with ForkedPython(words, cwd=folder, env=env, stdin=-1, stdout=-1, stderr=-1, text=True) as command:
        try:
            output, errors = command.communicate(input_text, TIMEOUT_S)
        finally:
            command.kill()
    assert "Traceback" not in errors and "unexpected" not in errors, errors
    return CommandResult(command.returncode, output, errors)


class ServerProcess:
    """A server in a process of its own; what it says is read as it comes."""

    def __init__(
        self,
        folder: Path,
        arguments: Sequence[str],
        more: Mapping[str, str],
        program: Sequence[str] = PROGRAM,
        python: Path | str = sys.executable,
    ) -> None:
        words, env = [*program, "serve", "--port", "0", *arguments], build_environment(folder, **more)
        if python == sys.executable and program == PROGRAM and "PYTHONPATH" not in more:
            self.process = ForkedPython(words, cwd=folder, env=env, stdout=-1, stderr=-1, text=True)
        else:  # what such a server imports is not in the process that is forked
            command = [str(python), *words]
            self.process = subprocess.Popen(command, cwd=folder, env=env, stdout=-1, stderr=-1, text=True)
        self.url = ""
        self.output_lines: list[str] = []
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
        self._readers[1].join(TIMEOUT_S)
        return [line.rstrip("\n") for line in self._errors]

    def has_logged(self, text: str) -> bool:
        return any(text in line for line in self._errors)

    def kill(self) -> None:
        self.process.kill()
        self.wait()
        for reader in self._readers:
            reader.join(TIMEOUT_S)

    def read_until(self, text: str) -> str:
        """Return the next line that contains the text."""
        while (line := self._lines.get(timeout=TIMEOUT_S)) is not None:
            self.output_lines.append(line)
            if text in line:
                return line
        self.kill()
        raise AssertionError(f"the server ended without saying {text!r}: {self.output_lines} {self._errors}")

    def read_address(self) -> None:
        """Wait until the server says where it listens."""
        self.url = self.read_until("listens on").rpartition(" ")[2]

    def wait(self) -> int:
        return self.process.wait(TIMEOUT_S)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()


@contextmanager
def start_server(
    folder: Path,
    *arguments: str,
    program: Sequence[str] = PROGRAM,
    python: Path | str = sys.executable,
    **more: str,
) -> Generator[ServerProcess]:
    """Yield a server once it has printed its address."""
    server = ServerProcess(folder, arguments, more, program, python)
    try:
        server.read_address()
        yield server
    finally:
        server.kill()


def request_json(
    url: str, body: object = None, *, method: str = "", headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, object]]:
    """Send a request and return the status and the JSON of its answer."""
    try:
        with _open_url(url, body, method, headers) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@contextmanager
def open_stream(
    url: str, body: object = None, headers: Mapping[str, str] | None = None
) -> Generator[Iterator[dict[str, object]]]:
    """The objects of a stream, as they come."""
    request_headers = {"accept": "text/event-stream", **(headers or {})}
    with _open_url(url, body, "", request_headers) as answer:
        yield (json.loads(line[6:]) for line in answer if line.startswith(b"data: "))


def read_until(objects: Iterator[dict[str, object]], **fields: object) -> dict[str, object]:
    """Return the first object that has these values."""
    received: list[dict[str, object]] = []
    for stream_object in objects:
        received.append(stream_object)
        if fields.items() <= stream_object.items():
            return stream_object
    raise AssertionError(f"no object with {fields} came: {received}")


def join_text(objects: Sequence[dict[str, object]]) -> str:
    return "".join(str(stream_object["content"]) for stream_object in objects if stream_object["type"] == "text.delta")


def fetch_list(url: str, name: str) -> list[dict[str, str]]:
    """Return the list of that name in an answer."""
    status, reply = request_json(url)
    assert status == 200, reply
    return cast(list[dict[str, str]], reply[name])


def parse_curl(line: str, **variables: str) -> tuple[str, dict[str, object], dict[str, str]]:
    """Return what a printed curl line sends: the address, the JSON body and the headers."""
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


def _open_url(url: str, body: object, method: str, headers: Mapping[str, str] | None) -> HTTPResponse:
    data = None if body is None else json.dumps(body).encode()
    kind = {} if data is None else {"content-type": "application/json"}
    request = urllib.request.Request(url, data, {**kind, **(headers or {})}, method=method or None)
    return urllib.request.urlopen(request, timeout=TIMEOUT_S)
