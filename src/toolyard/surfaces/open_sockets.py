"""Count the WebSockets that are open, and refuse one too many."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from toolyard.core.caller import Caller
from toolyard.core.errors import Unavailable
from toolyard.core.limits import SocketLimits


class OpenSockets:
    """The number of open WebSockets of this process, by user."""

    def __init__(self, limits: SocketLimits) -> None:
        self._limits = limits
        self._counts: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def add(self, caller: Caller) -> Generator[None]:
        """Count a WebSocket while it is open. Raise Unavailable if the user or the process has too many."""
        user, allowed = (caller.tenant, caller.user), self._limits.max_user_connections
        if self._counts[user] >= allowed:
            raise Unavailable(f"a user may have {allowed} WebSockets at most: close one of them first")
        if self._counts.total() >= self._limits.max_connections:
            raise Unavailable("this server has too many WebSockets: try again later, or send the request by HTTP")
        self._counts[user] += 1
        try:
            yield
        finally:
            self._counts[user] -= 1
            if not self._counts[user]:
                del self._counts[user]
