"""The rate limit against plain arithmetic with fractions, the clock that is set back, and how much is remembered."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolyard.stores.rate_limit import GcraLimiter

NOW = 1_700_000_000.0
TICK = 1 / 2**20


@given(
    per_minute=st.integers(1, 100_000),
    now=st.floats(1e9, 4e9),
    waits=st.lists(st.sampled_from([0.0, 0.1, 1.0, 1.7, 2.0, 7.77, 60.0]), max_size=80),
)
def test_it_grants_exactly_what_the_definition_grants(per_minute: int, now: float, waits: list[float]) -> None:
    limits, each, free_at = GcraLimiter(), Fraction(60, per_minute), Fraction(0)
    for wait in waits:
        now += wait
        at = Fraction(int(now / TICK), 2**20)
        ahead = max(free_at - at, Fraction(0)) + each - 60
        allowance = limits.take_allowance("ana", per_minute, now)
        assert allowance.granted == (ahead <= 0)
        assert 0 <= allowance.retry_after_s - max(ahead, 0) < TICK
        if allowance.granted:
            free_at = max(free_at, at) + each
            assert allowance.remaining == (60 - (free_at - at)) // each


@given(per_minute=st.integers(1, 1000), now=st.floats(1e9, 4e9))
def test_who_comes_again_when_told_is_let_in_and_who_comes_earlier_is_not(per_minute: int, now: float) -> None:
    limits = GcraLimiter()
    assert all(limits.take_allowance("ana", per_minute, now).granted for _ in range(per_minute))
    for _ in range(3):
        wait = limits.take_allowance("ana", per_minute, now).retry_after_s
        assert abs(wait - 60 / per_minute) < TICK
        assert not limits.take_allowance("ana", per_minute, now + wait - TICK).granted
        now += wait
        assert limits.take_allowance("ana", per_minute, now).granted


def test_a_clock_that_is_set_back_keeps_nobody_out_for_long() -> None:
    limits = GcraLimiter()
    assert all(limits.take_allowance("ana", 30, NOW).granted for _ in range(30))
    back = NOW - 3600
    assert limits.take_allowance("ana", 30, back).retry_after_s == 2.0
    assert limits.take_allowance("ana", 30, back + 1).retry_after_s == 1.0
    assert limits.take_allowance("ana", 30, back + 2).granted
    assert limits.take_allowance("ana", 30, back + 62).remaining == 29


def test_a_clock_that_is_set_back_refuses_nobody_who_has_requests_left() -> None:
    limits = GcraLimiter()
    assert limits.take_allowance("ana", 30, NOW).remaining == 29
    for back_s in (0.5, 60, 3600, 7200):
        assert limits.take_allowance("ana", 30, NOW - back_s).granted
    assert limits.take_allowance("bob", 30, NOW - 7200).remaining == 29
    assert (
        limits.take_allowance("ana", 30, NOW - 7200 + 2).remaining == 25
    )  # six taken, one given back after two seconds


def test_whoever_did_not_come_for_a_minute_is_forgotten() -> None:
    limits = GcraLimiter()
    for number in range(10_000):
        limits.take_allowance(f"user {number}", 30, NOW + number)
    assert len(limits) <= 3
    for number in range(1000):
        limits.take_allowance(f"user {number}", 30, NOW + 20_000)
    assert len(limits) == 1000
    for number in range(1000):
        limits.take_allowance(f"other {number}", 30, NOW + 20_100)
    assert len(limits) <= 1001


def test_no_more_are_remembered_than_the_bound_and_who_took_last_is() -> None:
    limits = GcraLimiter(max_remembered=50)
    for number in range(200):
        assert limits.take_allowance("busy", 200, NOW).remaining == 199 - number
        limits.take_allowance(f"user {number}", 30, NOW)
        assert len(limits) <= 50


@pytest.mark.parametrize("per_minute", [0, -1])
def test_a_limit_that_lets_nobody_in_is_an_error(per_minute: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        GcraLimiter().take_allowance("ana", per_minute, NOW)
