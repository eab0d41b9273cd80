"""Count the WebSockets and the requests that are open, and refuse one too many."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from toolyard.core.caller import Caller
from toolyard.core.errors import Unavailable
from toolyard.core.settings.limits import SocketLimits


class OpenSockets:
    """The number of open WebSockets of this process, by user."""

    def __init__(self, limits: SocketLimits) -> None:
        self._limits = limits
        self._counts: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def add(self, caller: Caller) -> Generator[None]:
        """Count a WebSocket while it is open. Raise Unavailable if the user or the process has too many."""
        allowed = self._limits.max_user_connections
        if self._counts[_get_user(caller)] >= allowed:
            raise Unavailable(f"a user may have {allowed} WebSockets at most: close one of them first")
        if self._counts.total() >= self._limits.max_connections:
            raise Unavailable("this server has too many WebSockets: try again later, or send the request by HTTP")
        with _count(self._counts, caller):
            yield


class OpenRequests:
    """The number of requests that this process is answering, by user. A stream is one until it ends."""

    def __init__(self, limits: SocketLimits) -> None:
        self._limits = limits
        self._counts: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def add(self, caller: Caller) -> Generator[None]:
        """Count a request until it is answered. Raise Unavailable if the user has too many."""
        allowed = self._limits.max_user_requests
        if self._counts[_get_user(caller)] >= allowed:
            raise Unavailable(f"a user may have {allowed} requests and streams open at most: close one of them first")
        with _count(self._counts, caller):
            yield


def _get_user(caller: Caller) -> tuple[str, str]:
    return caller.tenant, caller.user


@contextmanager
def _count(counts: Counter[tuple[str, str]], caller: Caller) -> Generator[None]:
    user = _get_user(caller)
    counts[user] += 1
    try:
        yield
    finally:
        counts[user] -= 1
        if not counts[user]:
            del counts[user]
