"""Ids: those made later come later, and no two are alike."""

from toolyard.app import SystemClock


class SettableSystemClock(SystemClock):
    """Makes ids as the system clock does, at a time that a test sets."""

    at = 1_700_000_000.0

    def now(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.at


def test_what_is_made_later_comes_later_so_that_a_store_keeps_it_together() -> None:
    clock, ids = SettableSystemClock(), list[str]()
    for second in (0.0, 1.0, 60.0, 86_400.0, 2_000_000_000.0):
        clock.at = 1_700_000_000.0 + second
        ids.append(clock.new_id("conversation"))
    assert ids == sorted(ids)


def test_ids_of_one_second_differ() -> None:
    clock = SettableSystemClock()
    assert len({clock.new_id("call") for _ in range(1_000)}) == 1_000
