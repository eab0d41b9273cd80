"""Values of settings that were changed while runs were open: a run goes on with what it began with. Pure."""

from typing import Generic, TypeVar

MAX_VERSIONS = 100
"""A run that began before all of them counts as begun with the oldest."""
T = TypeVar("T")


class Versions(Generic[T]):
    """A value, and those that it has replaced in this process, with their times.

    Every turn asks for it: `current` and `changed_at` are plain attributes, which cost no call.
    """

    def __init__(self, value: T) -> None:
        self.current = value
        self.changed_at = 0.0
        """When the value was last replaced; 0 if it never was."""
        self._versions: list[tuple[float, T]] = [(0.0, value)]

    def replace(self, value: T, now: float) -> bool:
        """Set the value from now on. Return whether it is another one."""
        if value == self.current:
            return False
        self.current, self.changed_at = value, now
        self._versions = [*self._versions[-MAX_VERSIONS + 1 :], (now, value)]
        return True

    def get_at(self, at: float) -> T:
        """Return the value that counted at a time."""
        if at >= self.changed_at:
            return self.current
        return next((value for since, value in reversed(self._versions) if since <= at), self._versions[0][1])
