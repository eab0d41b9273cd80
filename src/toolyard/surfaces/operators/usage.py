"""`GET /usage` and `GET /budgets`: what was used, what it cost, and what is left.

Everybody sees their own; operators and administrators of a tenant that of the tenant, and those without one everything.
"""

from collections.abc import Set
from typing import Annotated, Literal

from litestar import Response, get
from litestar.params import QueryParameter
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.prices import MICROS
from toolyard.core.store import BudgetBalance, UsageQuery
from toolyard.core.store.ledger import build_balance, list_key
from toolyard.engine.service import Service
from toolyard.observability.usage_report import (
    MAX_LINES,
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
    last_reserved: float
    """What the last request to the replica that answers had to reserve: another one like it needs so much to be left.

    Zero if there was none.
    """
    applies: bool
    """Whether runs of the caller count to it, or would with a preset that the caller may use.

    Operators of the server see the budgets of others as well.
    """


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
    first = _parse_day(from_day, "from", max(0, last - DEFAULT_DAYS + 1))
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
        text = render_csv(lines, dimensions, is_complete=len(rows) <= MAX_LINES)
        return Response(text, media_type=CSV, headers=headers)
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
    presets = await _list_preset_names(service, caller)
    views: list[BudgetView] = []
    for name, rule in service.spending.budgets.items():
        own_scopes = {scope for preset in presets if (scope := rule.find_scope(caller, preset)) is not None}
        others = {scope for budget, scope, period in stored if (budget, period) == (name, periods[name])}
        for scope in sorted(own_scopes | others if caller.observes_server else own_scopes):
            balance = stored.get(key := (name, scope, periods[name])) or build_balance(key)
            views.append(_build_view(rule, balance, own_scopes, service))
    return BudgetList(budgets=views, count=len(views))


ROUTES = (read_usage, list_budgets)


def _sees_others(caller: Caller) -> bool:
    return bool(caller.roles & {"admin", "operator"})


async def _list_preset_names(service: Service, caller: Caller) -> list[str]:
    """Return the names of the presets that the caller may use, if there are budgets for presets, and none of them."""
    if all(rule.scope != "preset" for rule in service.spending.budgets.values()):
        return [""]
    return ["", *(preset.name for preset in await service.presets.list(caller))]


def _build_view(rule: BudgetRule, balance: BudgetBalance, own_scopes: Set[str], service: Service) -> BudgetView:
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
        waiting=service.spending.count_waiting(balance.budget, balance.scope),
        last_reserved=service.spending.get_last_reserved(balance.budget, balance.scope) / MICROS,
        applies=balance.scope in own_scopes,
    )


def _parse_day(text: str, field: str, default: int) -> int:
    if not text:
        return default
    try:
        return parse_day(text)
    except ValueError:
        raise invalid_field(field, "must be a date from 1970 on, such as 2027-01-31") from None
