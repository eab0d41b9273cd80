"""Two replicas under load, one of which is killed while it changes keys, models and servers.

What it has answered is soon so at the other one; each other change is stored as a whole or not at all.
"""

import queue
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from cli.process import ServerProcess, request_json, run_toolyard, start_server
from crash.stored_changes import check_changes
from postgres import create_database
from venues.mcp.modern import over_http

Json = Any
KILLED_AFTER = (1, 3, 5)
"""How many changes the replica has answered when it is killed; the others are under way then."""
MAX_DELAY_S = 5.0
"""How long a change may take to count. Two seconds are promised, but a machine may be busy with other tests."""
ANSWERED_S = 20.0
PERSONS = 2
"""How many people talk to each replica all the time."""
SETTINGS = {
    "TOOLYARD_SECRET": "a secret of more than thirty-two characters",
    "TOOLYARD_PRIVATE_ADDRESSES": "true",
    "OPENAI_API_KEY": "the-key-of-nobody",
    "TOOLYARD_LIMITS__REQUESTS_PER_MINUTE": "1000000",
}


class Change(NamedTuple):
    """A request to a replica, and what the other one answers as soon as it counts there."""

    method: str
    path: str
    body: Json | None
    seen_path: str
    seen_status: int
    seen_text: str = ""
    key: str = ""
    """The key to look with; empty for that of the administrator."""


class Replicas:
    """Two servers on one database. The first can be killed and started again."""

    def __init__(self, stack: ExitStack, folder: Path, store: str, admin: str) -> None:
        self._stack, self._folder, self._store, self.admin = stack, folder, store, admin
        self.first, self.second = self._start("first"), self._start("second")

    def _start(self, name: str) -> ServerProcess:
        (self._folder / name).mkdir(exist_ok=True)
        return self._stack.enter_context(start_server(self._folder / name, "--store", self._store, **SETTINGS))

    def start_first(self) -> None:
        self.first = self._start("first")

    def ask(
        self, server: ServerProcess, method: str, path: str, body: object = None, key: str = ""
    ) -> tuple[int, Json]:
        headers = {"x-api-key": key or self.admin}
        return request_json(f"{server.url}{path}", body, method=method, headers=headers)

    def create(self, path: str, body: Json) -> Json:
        status, answer = self.ask(self.first, "POST", path, body)
        assert status == 201, answer
        return answer

    def is_seen(self, change: Change) -> bool:
        status, answer = self.ask(self.second, "GET", change.seen_path, key=change.key)
        return status == change.seen_status and change.seen_text in str(answer)

    def wait_until_seen(self, change: Change) -> float:
        """Return how many seconds it takes until a change counts at the second replica."""
        begun = time.monotonic()
        while not self.is_seen(change):
            assert time.monotonic() - begun < MAX_DELAY_S, change.path
        return time.monotonic() - begun


@contextmanager
def open_replicas(folder: Path, store: str) -> Generator[Replicas]:
    assert run_toolyard(folder, "migrate", "--store", store, **SETTINGS).code == 0
    words = ("keys", "add", "root", "--user", "root", "--role", "admin", "--store", store)
    made = run_toolyard(folder, *words, **SETTINGS)
    assert made.code == 0, made.errors
    with ExitStack() as stack:
        yield Replicas(stack, folder, store, made.out.split()[0])


@contextmanager
def talk(replicas: Replicas) -> Generator[None]:
    """Have people talk to both replicas during the block, also while one of them does not run."""
    over = threading.Event()

    def talk_to(find: Callable[[], ServerProcess]) -> int:
        answers = 0
        while not over.is_set():
            try:
                status, created = replicas.ask(find(), "POST", "/conversations", {"title": "Load"})
                assert status in (201, 503), created
                if status == 201:
                    conversation = created["conversation"]["id"]
                    status, _ = replicas.ask(find(), "POST", f"/conversations/{conversation}/chat", {"content": "hi"})
                    answers += status == 200
            except (OSError, HTTPException):
                over.wait(0.05)  # it was killed, and is started again
        return answers

    with ThreadPoolExecutor(2 * PERSONS) as people:
        talks = [
            people.submit(talk_to, find)
            for find in (lambda: replicas.first, lambda: replicas.second)
            for _ in range(PERSONS)
        ]
        try:
            yield
        finally:
            over.set()
        assert all(talk.result() for talk in talks), "nobody was answered"


def prepare(replicas: Replicas, attempt: int, tools_url: str) -> list[Change]:
    """Add a key and a server, and return changes, three of which a person would miss at the other replica."""
    app, numbers = f"app-{attempt}", f"numbers-{attempt}"
    secret = replicas.create("/keys", {"name": app, "user": "app"})["secret"]
    replicas.create("/servers", {"name": numbers, "config": {"url": tools_url}})
    # Not with the key itself: as long as it is not known there, each look would count as one with a wrong key.
    replicas.wait_until_seen(Change("GET", "/keys", None, "/keys", 200, app))
    replicas.wait_until_seen(Change("GET", f"/servers/{numbers}", None, f"/servers/{numbers}", 200))
    model = f"openai:gpt-{attempt}"
    options, budget = f"/settings/model_options/{model}", f"/settings/budgets/team-{attempt}"
    added = f"later-{attempt}"
    return [
        Change("DELETE", f"/keys/{app}", None, "/me", 401, key=secret),
        Change("PUT", "/settings/general/models", {"value": [model]}, "/models", 200, model),
        Change("DELETE", f"/servers/{numbers}", None, f"/servers/{numbers}", 404),
        Change("PUT", options, {"value": {"seed": attempt}}, options, 200),
        Change("POST", "/keys", {"name": added, "user": "later"}, "/keys", 200, added),
        Change("PUT", budget, {"value": {"amount": 5, "window": "total"}}, budget, 200),
        Change("POST", "/servers", {"name": added, "config": {"url": tools_url}}, f"/servers/{added}", 200),
        Change("PUT", "/settings/general/system_prompt", {"value": f"Be kind {attempt}."},
               "/settings/general/system_prompt", 200, f"kind {attempt}"),
    ]  # fmt: skip


def change_until_killed(replicas: Replicas, changes: list[Change], answers: int) -> list[float]:
    """Kill the first replica in the middle of changes. Return how long each answered one took to reach the other."""
    answered: queue.SimpleQueue[int] = queue.SimpleQueue()

    def apply(change: Change) -> float | None:
        try:
            status, answer = replicas.ask(replicas.first, change.method, change.path, change.body)
        except (OSError, HTTPException):
            return None  # it was killed before it answered
        answered.put(status)
        assert status in (200, 201), answer
        return replicas.wait_until_seen(change)

    with ThreadPoolExecutor(len(changes)) as clients:
        applied: list[Future[float | None]] = [clients.submit(apply, change) for change in changes]
        for _ in range(answers):
            answered.get(timeout=ANSWERED_S)
        replicas.first.kill()
        return [delay for result in applied if (delay := result.result()) is not None]


async def test_what_a_killed_replica_has_changed_counts_at_the_other_one_in_time_and_as_a_whole(tmp_path: Path) -> None:
    async with create_database() as url, over_http() as tools:
        with open_replicas(tmp_path, url) as replicas, talk(replicas):
            delays: list[float] = []
            for attempt, answers in enumerate(KILLED_AFTER):
                delays += change_until_killed(replicas, prepare(replicas, attempt, tools.spec().url), answers)
                replicas.start_first()
            assert len(delays) >= sum(KILLED_AFTER)
            print(f"{len(delays)} changes were seen after {max(delays):.2f} s at most")
        await check_changes(url)
