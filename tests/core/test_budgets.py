"""The windows and scopes of budgets."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from toolyard.core.caller import Caller
from toolyard.core.settings.budgets import BudgetRule, BudgetScope


def to_timestamp(text: str, zone: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("window", "time", "period"),
    [
        ("day", "2027-01-31 23:59:59", "2027-01-31"),
        ("day", "2027-02-01 00:00:00", "2027-02-01"),
        ("month", "2027-01-31 23:59:59", "2027-01"),
        ("month", "2027-02-01 00:00:00", "2027-02"),
        ("total", "2027-02-01 00:00:00", "total"),
    ],
)
def test_a_window_begins_at_midnight_in_the_budgets_time_zone(window: str, time: str, period: str) -> None:
    for zone in ("Pacific/Auckland", "Europe/Zurich", "America/Los_Angeles"):
        rule = BudgetRule(amount=1.0, window=window, time_zone=zone)  # pyright: ignore[reportArgumentType]
        assert rule.find_period(to_timestamp(time, zone)) == period


@pytest.mark.parametrize(("day", "hours"), [("2027-03-28", 23), ("2027-10-31", 25)])
def test_a_day_on_which_the_clock_changes_is_one_window_however_long_it_is(day: str, hours: int) -> None:
    rule, start = BudgetRule(amount=1.0, window="day", time_zone="Europe/Zurich"), to_timestamp(day, "Europe/Zurich")
    periods = [rule.find_period(start + hour * 3_600 + 1_800) for hour in range(hours)]
    assert set(periods) == {day}
    assert day not in (rule.find_period(start - 1), rule.find_period(start + hours * 3_600))


@pytest.mark.parametrize("amount", [0.000_000_1, 0.000_000_4])
def test_an_amount_that_no_cost_can_be_counted_against_is_a_problem(amount: float) -> None:
    assert [field for field, _ in BudgetRule(amount=amount, window="total").iter_problems()] == ["amount"]


CALLER = Caller(user="ana", tenant="acme", division="north", key="shop")


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        ("server", ""),
        ("tenant", "acme"),
        ("user", '["acme","ana"]'),
        ("key", "shop"),
        ("preset", '["acme","writer"]'),
        ("division", "north"),
    ],
)
def test_a_run_counts_to_the_scope_of_its_caller(scope: BudgetScope, name: str) -> None:
    assert BudgetRule(amount=1.0, scope=scope).find_scope(CALLER, "writer") == name


def test_a_budget_is_not_for_those_without_a_name_in_its_scope_nor_for_others_than_it_names() -> None:
    nobody = Caller(user="ana")
    for scope in ("tenant", "key", "preset", "division"):
        assert BudgetRule(amount=1.0, scope=scope).find_scope(nobody, "") is None
    assert BudgetRule(amount=1.0, scope="tenant", only=("other",)).find_scope(CALLER, "") is None
    assert BudgetRule(amount=1.0, scope="user", only=("ana",)).find_scope(CALLER, "") == '["acme","ana"]'
