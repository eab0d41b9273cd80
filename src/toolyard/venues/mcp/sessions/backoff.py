"""The delay before a server is tried again. Pure: the caller measures the time and draws the random jitter."""

from msgspec import Struct
from msgspec.structs import replace

FIRST_DELAY_S = 0.2
MAX_DELAY_S = 30.0
OPEN_AFTER = 5
"""So many failures in a row open the circuit breaker: calls fail at once, and the server is only probed."""
STABLE_S = 30.0
"""The end of a session that lived so long is not counted as a failure."""


class Backoff(Struct, frozen=True):
    """The number of failed attempts in a row, and what follows from it."""

    failures: int = 0

    @property
    def is_open(self) -> bool:
        return self.failures >= OPEN_AFTER

    def after_session(self, *, answered: bool, lived_s: float) -> "Backoff":
        """Return the state after a session ended: reset if it answered a call or lived for STABLE_S, else one more."""
        return Backoff() if answered or lived_s >= STABLE_S else replace(self, failures=self.failures + 1)

    def delay_s(self, jitter: float) -> float:
        """Return the delay before the next attempt; zero after the first failure.

        `jitter`, between 0 and 1, spreads the attempts of many servers that failed together.
        """
        if self.failures <= 1:
            return 0.0
        return min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (self.failures - 2)) * (0.5 + jitter)
