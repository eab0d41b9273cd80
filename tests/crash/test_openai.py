"""Kill -9 in the middle of a request of OpenAI's client, with its own retries: one effect, and the retry joins."""

import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from forked_python import ForkedPython
from ports import listen
from support import wait_until

CHARGING_CHILD = Path(__file__).with_name("openai_child.py")
ENDLESS_CHILD = Path(__file__).with_name("left_child.py")
KILLED = -9


class Server:
    """A process that serves on a socket which outlives it, and is started again each time that it is killed."""

    def __init__(self, child: Path, folder: Path, listening: socket.socket) -> None:
        self._words = [str(child), str(folder / "yard.db"), str(folder / "effects"), str(listening.fileno())]
        self._descriptor = listening.fileno()
        self._process = self._start()
        self._is_closing = threading.Event()
        self.kills = 0
        self._watching = threading.Thread(target=self._watch)
        self._watching.start()

    def _start(self) -> ForkedPython:
        return ForkedPython(self._words, pass_fds=[self._descriptor])

    def _watch(self) -> None:
        while self._process.wait() == KILLED and not self._is_closing.is_set():
            self.kills += 1
            self._process = self._start()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._is_closing.set()
        self._process.kill()
        self._watching.join()


@contextmanager
def serve(folder: Path, child: Path = CHARGING_CHILD) -> Generator[tuple[Server, str]]:
    # Connections wait in the socket's queue while no process serves it.
    listening = listen(64)
    os.set_inheritable(listening.fileno(), True)
    server = Server(child, folder, listening)
    try:
        yield server, f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        server.close()
        listening.close()


QUESTION: Any = [{"role": "user", "content": "Charge me"}]


def test_a_killed_server_charges_once_and_the_clients_own_retry_joins_the_run(tmp_path: Path) -> None:
    with serve(tmp_path) as (server, url), openai.OpenAI(base_url=url, api_key="unused", timeout=60) as client:
        answer = client.chat.completions.create(model="default", messages=QUESTION)
        assert answer.choices[0].message.content == "The outcome is unknown."
        assert ((tmp_path / "effects").read_text(), server.kills) == ("charged 5\n", 1)


def test_a_stream_that_a_kill_has_cut_off_goes_on_with_the_same_request(tmp_path: Path) -> None:
    retry = {"x-stainless-retry-count": "1"}  # a stream that has begun is not repeated by the client itself
    with serve(tmp_path) as (server, url), openai.OpenAI(base_url=url, api_key="unused", timeout=60) as client:
        with pytest.raises(openai.APIError):
            list(client.chat.completions.create(model="default", messages=QUESTION, stream=True))
        chunks = client.chat.completions.create(model="default", messages=QUESTION, stream=True, extra_headers=retry)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert text == "The outcome is unknown."
        assert ((tmp_path / "effects").read_text(), server.kills) == ("charged 5\n", 1)


def test_a_response_that_a_kill_has_cut_off_is_taken_up_without_a_gap_or_a_repetition(tmp_path: Path) -> None:
    with serve(tmp_path) as (server, url), openai.OpenAI(base_url=url, api_key="unused", timeout=60) as client:
        seen: list[Any] = []
        with pytest.raises(openai.APIError):
            for event in client.responses.create(model="default", input="Charge me", stream=True):
                seen.append(event)
        number, response_id = seen[-1].sequence_number, seen[0].response.id
        for event in client.responses.retrieve(response_id, stream=True, starting_after=number):
            seen.append(event)
        numbers = [event.sequence_number for event in seen]
        assert numbers == sorted(set(numbers))
        whole = list(client.responses.retrieve(response_id, stream=True))
        assert [event.type for event in seen] == [event.type for event in whole]
        text = "".join(event.delta for event in seen if event.type == "response.output_text.delta")
        assert text == seen[-1].response.output_text == "The outcome is unknown."
        assert ((tmp_path / "effects").read_text(), server.kills) == ("charged 5\n", 1)


async def test_a_run_that_a_kill_has_cut_off_is_stopped_where_its_client_does_not_come_back(tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    with serve(tmp_path, ENDLESS_CHILD) as (server, url), openai.OpenAI(base_url=url, api_key="unused") as client:
        for _ in client.chat.completions.create(model="default", messages=QUESTION, stream=True):
            break
        server.kill()
        await wait_until(lambda: effects.read_text() == "asked\nasked\ncut off\n")
        assert server.kills == 1
