"""Budgets: how much the runs of a scope may cost in a window of time. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta, Struct

from toolyard.core.caller import Caller
from toolyard.core.settings.prices import PUBLISHED_CURRENCY, Currency, Price, to_micros
from toolyard.core.settings.types import Name

Amount = Annotated[float, Meta(extra={"gt": 0, "le": 1_000_000_000})]
BudgetScope = Literal["server", "tenant", "user", "key", "preset", "division"]
BudgetWindow = Literal["day", "month", "total"]
TOTAL = "total"
"""The period of a budget without a window."""
WARNING_PERCENTS = (50, 80, 100)
"""The shares of a budget whose crossing is logged as a warning."""
RESERVE_OUTPUT_TOKENS = 8_192
"""The limit of an answer under a budget, where neither its request nor its model has one."""


class BudgetRule(Struct, frozen=True, kw_only=True):
    """An amount that the runs of a scope may cost in a window of time."""

    amount: Amount
    currency: Currency = PUBLISHED_CURRENCY
    window: BudgetWindow = "month"
    time_zone: str = ""
    """Where days and months begin, such as `Europe/Zurich`."""
    scope: BudgetScope = "server"
    """Whose runs count together: those of the whole server, or of each tenant, user, key, preset or division."""
    only: tuple[Name, ...] = ()
    """The names of the tenants, users, keys, presets or divisions that it is for; empty means each one."""
    on_reach: Literal["refuse", "ask"] = "refuse"
    """Whether a request without room is refused, or waits until an operator raises the amount."""

    def iter_problems(self) -> Iterator[tuple[str, str]]:
        if not self.micros:
            yield "amount", "is less than a millionth, in which costs are counted"
        if self.window != TOTAL and not self.time_zone:
            yield "time_zone", f"is missing: a {self.window} begins at midnight somewhere, such as in Europe/Zurich"
        elif self.time_zone and not _is_time_zone(self.time_zone):
            yield "time_zone", "is not a time zone: write one such as Europe/Zurich or UTC"
        if self.only and self.scope == "server":
            yield "only", "is for a scope with names: set scope to tenant, user, key, preset or division"

    @property
    def micros(self) -> int:
        return to_micros(self.amount)

    def find_scope(self, caller: Caller, preset: str) -> str | None:
        """Return whose amount a run counts to; None if the budget is not for it."""
        name = {
            "server": "",
            "tenant": caller.tenant,
            "user": caller.user,
            "key": caller.key,
            "preset": preset,
            "division": caller.division,
        }[self.scope]
        if self.scope != "server" and (name not in self.only if self.only else not name):
            return None
        # Users and presets of two tenants may have one name, and nobody may use up the amount of another tenant. As
        # JSON, in which no tenant and name can be taken for others.
        is_of_tenant = self.scope in ("user", "preset")
        return msgspec.json.encode((caller.tenant, name)).decode() if is_of_tenant else name

    def find_period(self, now: float) -> str:
        """Return the window that a time belongs to, such as `2027-01-31`, `2027-01` or `total`."""
        if self.window == TOTAL:
            return TOTAL
        day = datetime.fromtimestamp(now, ZoneInfo(self.time_zone)).date().isoformat()
        return day if self.window == "day" else day[:7]


Budgets = Mapping[str, BudgetRule]
"""By name."""
NO_BUDGETS: Budgets = {}


def iter_currency_problems(budgets: Budgets, prices: Mapping[str, Price]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the problem of each budget whose currency is not that of the prices."""
    for name, budget in budgets.items():
        path = ("budgets", name, "currency")
        others = {model: price.currency for model, price in prices.items() if price.currency != budget.currency}
        if others and len(others) < len(prices):
            model = min(others)
            yield path, f"is {budget.currency}, and the price of {model!r} is in {others[model]}: use one currency"
        elif budget.currency != PUBLISHED_CURRENCY and (others or not prices):
            yield path, f"is one in which no model has a price: set [prices] in {budget.currency}, or use USD"


def _is_time_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
