"""How long to wait before a server is tried again. Pure: it knows no clock, and draws no lots."""

from msgspec import Struct
from msgspec.structs import replace

FIRST_S = 0.2
MOST_S = 30.0
OPEN_AFTER = 5
"""So many failures in a row open the breaker: calls fail at once, and the server is tried only now and then."""
STEADY_S = 30.0
"""A session that lived so long was in order, whatever ended it."""


class Patience(Struct, frozen=True):
    """What a link remembers of the attempts before."""

    failures: int = 0

    @property
    def open(self) -> bool:
        return self.failures >= OPEN_AFTER

    def after(self, *, answered: bool, lived_s: float) -> "Patience":
        """A session that answered a call, or lived for a while, was in order: its end is no failure."""
        return Patience() if answered or lived_s >= STEADY_S else replace(self, failures=self.failures + 1)

    def wait_s(self, luck: float) -> float:
        """Once it is tried again at once. `luck`, between 0 and 1, spreads attempts of many that failed together."""
        if self.failures <= 1:
            return 0.0
        return min(MOST_S, FIRST_S * 2 ** (self.failures - 2)) * (0.5 + luck)
