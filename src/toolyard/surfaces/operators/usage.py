"""`GET /usage` and `GET /budgets`: what was used, what it cost, and what is left.

Everybody sees their own; operators and administrators of a tenant that of the tenant, and those without one everything.
"""

from typing import Annotated, Literal

from litestar import Response, get
from litestar.params import QueryParameter
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.prices import MICROS
from toolyard.core.store import BudgetBalance, UsageQuery
from toolyard.core.store.ledger import build_balance, list_key
from toolyard.observability.usage_report import (
    UsageLine,
    build_lines,
    format_day,
    parse_day,
    parse_dimensions,
    render_csv,
)
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.openapi import ERRORS, JsonOrCsvOperation
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

DAY_S = 86_400
DEFAULT_DAYS = 30
MAX_LINES = 10_000
CSV = "text/csv"


class UsageReport(Struct, kw_only=True, rename={"first_day": "from", "last_day": "to"}):
    """The usage of a period of whole days, both included."""

    first_day: str
    last_day: str
    group_by: list[str]
    usage: list[UsageLine]
    complete: bool
    """Whether these are all lines: there are at most 10,000."""
    success: bool = True


class BudgetView(Struct, kw_only=True):
    """A budget in a scope, in the current period. Amounts are in units of the currency."""

    name: str
    scope: str
    """What the budget is for each of: the server, or a tenant, user, key, preset or division."""
    scope_name: str
    period: str
    currency: str
    amount: float
    spent: float
    reserved: float
    left: float
    """What is neither spent nor reserved; below zero after an overdraft."""
    overdraft: float
    on_reach: Literal["refuse", "ask"]
    """Whether a request without room is refused, or waits until the amount is raised."""
    waiting: int
    """How many requests wait for room, at the replica that answers."""
    applies: bool
    """Whether runs of the caller count to it. Operators of the server see the budgets of others as well."""


class BudgetList(Struct, kw_only=True):
    budgets: list[BudgetView]
    count: int
    success: bool = True


@get("/usage", responses=ERRORS, operation_class=JsonOrCsvOperation, tags=["usage"])
async def read_usage(
    request: HttpRequest,
    from_day: Annotated[str, QueryParameter(name="from", max_length=10, description="The first day, UTC")] = "",
    to_day: Annotated[str, QueryParameter(name="to", max_length=10, description="The last day, UTC")] = "",
    group_by: Annotated[
        str,
        QueryParameter(max_length=100, description="Some of user, key, tenant, model, tool, preset, day, with commas"),
    ] = "",
    whose: Annotated[
        Literal["", "mine"], QueryParameter(description="`mine` for the caller's own usage, whatever else it may see")
    ] = "",
    tenant: Annotated[
        str, QueryParameter(max_length=500, description="One tenant, for operators without a tenant of their own")
    ] = "",
    format: Annotated[Literal["", "json", "csv"], QueryParameter(description="Else as `Accept` says")] = "",
) -> Response[UsageReport | str]:
    """Return what models and tools were used and cost, by day, user, model and so on: the exact sum of the turns.

    A cost that is unknown is null, and its turns are counted in `unknown_costs`. Without dates, of the last 30 days.
    """
    service, caller = request.backend.service, get_request_context(request.scope).caller
    today = int(service.clock.now() // DAY_S)
    last = _parse_day(to_day, "to", today)
    first = _parse_day(from_day, "from", last - DEFAULT_DAYS + 1)
    try:
        dimensions = parse_dimensions(group_by)
    except ValueError as error:
        raise invalid_field("group_by", str(error)) from None
    if first > last:
        raise invalid_field("from", "must not be after `to`")
    query = UsageQuery(
        first_day=first,
        last_day=last,
        tenant=(tenant or None) if caller.observes_server and whose != "mine" else caller.tenant,
        user=None if _sees_others(caller) and whose != "mine" else caller.user,
        group_by=dimensions,
        limit=MAX_LINES + 1,
    )
    rows = await service.read_usage(query)
    lines = build_lines(rows[:MAX_LINES], dimensions)
    if format == "csv" or (not format and CSV in request.headers.get("accept", "")):
        name = f"usage-{format_day(first)}-{format_day(last)}.csv"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(render_csv(lines, dimensions), media_type=CSV, headers=headers)
    report = UsageReport(
        first_day=format_day(first),
        last_day=format_day(last),
        group_by=[*dimensions],
        usage=lines,
        complete=len(rows) <= MAX_LINES,
    )
    return Response(report)


@get("/budgets", responses=ERRORS, tags=["usage"])
async def list_budgets(request: HttpRequest) -> BudgetList:
    """Return the budgets that apply to the caller, with what is left; to operators of the server, all of them."""
    service, caller = request.backend.service, get_request_context(request.scope).caller
    periods = {name: rule.find_period(service.clock.now()) for name, rule in service.spending.budgets.items()}
    stored = {list_key(balance): balance for balance in await service.read_balances(sorted({*periods.values()}))}
    views: list[BudgetView] = []
    for name, rule in service.spending.budgets.items():
        own = rule.find_scope(caller, "")
        scopes = {own}
        if caller.observes_server:
            scopes |= {scope for budget, scope, period in stored if (budget, period) == (name, periods[name])}
        keys = [(name, scope, periods[name]) for scope in sorted(scope for scope in scopes if scope is not None)]
        waiting = service.spending.count_waiting(name)
        views += [_build_view(rule, stored.get(key) or build_balance(key), own, waiting) for key in keys]
    return BudgetList(budgets=views, count=len(views))


ROUTES = (read_usage, list_budgets)


def _sees_others(caller: Caller) -> bool:
    return bool(caller.roles & {"admin", "operator"})


def _build_view(rule: BudgetRule, balance: BudgetBalance, own_scope: str | None, waiting: int) -> BudgetView:
    return BudgetView(
        name=balance.budget,
        scope=rule.scope,
        scope_name=balance.scope,
        period=balance.period,
        currency=rule.currency,
        amount=rule.amount,
        spent=balance.spent / MICROS,
        reserved=balance.reserved / MICROS,
        left=(rule.micros - balance.spent - balance.reserved) / MICROS,
        overdraft=balance.overdraft / MICROS,
        on_reach=rule.on_reach,
        waiting=waiting,
        applies=balance.scope == own_scope,
    )


def _parse_day(text: str, field: str, default: int) -> int:
    if not text:
        return default
    try:
        return parse_day(text)
    except ValueError:
        raise invalid_field(field, "must be a date such as 2027-01-31") from None
