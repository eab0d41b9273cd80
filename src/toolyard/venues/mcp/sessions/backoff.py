"""How long to wait before a server is tried again. Pure: it knows no clock, and draws no lots."""

from msgspec import Struct
from msgspec.structs import replace

FIRST_DELAY_S = 0.2
MAX_DELAY_S = 30.0
OPEN_AFTER = 5
"""So many failures in a row open the breaker: calls fail at once, and the server is tried only now and then."""
STABLE_S = 30.0
"""A session that lived so long was in order, whatever ended it."""


class Backoff(Struct, frozen=True):
    """What a link remembers of the attempts before."""

    failures: int = 0

    @property
    def is_open(self) -> bool:
        return self.failures >= OPEN_AFTER

    def after_session(self, *, answered: bool, lived_s: float) -> "Backoff":
        """A session that answered a call, or lived for a while, was in order: its end is no failure."""
        return Backoff() if answered or lived_s >= STABLE_S else replace(self, failures=self.failures + 1)

    def delay_s(self, jitter: float) -> float:
        """Once it is tried again at once. `luck`, between 0 and 1, spreads attempts of many that failed together."""
        if self.failures <= 1:
            return 0.0
        return min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (self.failures - 2)) * (0.5 + jitter)
