"""Values of settings that were changed while runs were open: a run goes on with what it began with."""

from typing import Generic, TypeVar

MAX_VERSIONS = 100
"""A run that began before all of them counts as begun with the oldest."""
T = TypeVar("T")


class Versions(Generic[T]):
    """A value, and those that it has replaced in this process, with their times."""

    def __init__(self, value: T) -> None:
        self._versions: list[tuple[float, T]] = [(0.0, value)]

    @property
    def current(self) -> T:
        return self._versions[-1][1]

    @property
    def changed_at(self) -> float:
        """When the value was last replaced; 0 if it never was."""
        return self._versions[-1][0]

    def replace(self, value: T, now: float) -> bool:
        """Set the value from now on. Return whether it is another one."""
        if value == self.current:
            return False
        self._versions = [*self._versions[-MAX_VERSIONS + 1 :], (now, value)]
        return True

    def get_at(self, at: float) -> T:
        """Return the value that counted at a time."""
        return next((value for since, value in reversed(self._versions) if since <= at), self._versions[0][1])
