"""What requests to models cost: each is priced when it ends and, under a budget, reserved before it is sent.

A reservation is the most that a request may cost: its input as estimated, the limit of its answer, which is then always
sent, and the allowed uses of the provider's own tools.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.run_state import RunState
from toolyard.core.conversation.state import State
from toolyard.core.errors import Invalid, StoreDown
from toolyard.core.items import Problem, Usage
from toolyard.core.masking import mask_model
from toolyard.core.model_failures import BUDGET_EXCEEDED
from toolyard.core.ports import Clock, ModelRequest, PriceFinder, Spawn
from toolyard.core.settings.budgets import NO_BUDGETS, RESERVE_OUTPUT_TOKENS, WARNING_PERCENTS, Budgets
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, MIN_THINKING_TOKENS, Options
from toolyard.core.settings.prices import MICROS, Cost, Quote, compute_cost
from toolyard.core.store import BudgetCharge, BudgetShare, Ledger, Reservation
from toolyard.core.store.ledger import CALL_PREFIX, BudgetKey, list_key, name_summary

SETTLE_DELAY_S = 0.05
"""How long settlements are gathered, so that one statement charges many of them."""
MAX_SETTLED = 500
"""Reservations that one statement charges: it locks the rows of their budgets."""
STORE_RETRIES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""The waits before a reservation is tried again while the store is down."""
RETRY_S = 15.0
"""How often a run that waits for a budget asks for room again, besides when the budgets are changed."""
MAX_REMEMBERED = 10_000
"""Budgets with their scopes of which something is remembered, such as that they have refused a request."""
T = TypeVar("T")

_log = logging.getLogger("toolyard.spending")


class LostCosts(Struct, frozen=True, kw_only=True):
    """The estimated costs of requests of a run that nobody asks for again."""

    turn: Cost | None = None
    summary: Cost | None = None


class Spending:
    """The prices and budgets of a server."""

    def __init__(
        self,
        prices: PriceFinder,
        clock: Clock,
        ledger: Ledger,
        budgets: Budgets = NO_BUDGETS,
        *,
        model_options: Mapping[str, Options] | None = None,
        reserve_output_tokens: int = RESERVE_OUTPUT_TOKENS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`model_options` are those that are configured for models, by their names."""
        self.prices = prices
        self.clock = clock
        self.budgets = budgets
        self._ledger = ledger
        self._model_options = model_options or {}
        self._reserve_output_tokens = reserve_output_tokens
        self._sleep = sleep
        self._is_settling = False
        self._is_closed = False
        self._has_budgets = bool(budgets)
        self._changed = asyncio.Event()
        """Replaced and set when the budgets change."""
        self._waiting: Counter[tuple[str, str]] = Counter()
        """How many requests wait for room, by the name and the scope of the budget."""
        self._last_reserved: dict[tuple[str, str], int] = {}
        """What the last request that was remembered is to reserve, by the name and the scope of the budget."""
        self._refusing: set[BudgetKey] = set()
        """The rows whose first refusal was logged."""

    async def start(self) -> None:
        """Find out whether earlier processes have reserved of budgets that were removed: those are charged as well."""
        self._has_budgets = self._has_budgets or await self._retry(self._ledger.has_reservations)

    def has_budgets(self) -> bool:
        """Return whether there are budgets, or have been: turns may still hold reservations of those."""
        return self._has_budgets

    def replace_budgets(self, budgets: Budgets) -> None:
        """Use other budgets from now on, also for requests that wait for room."""
        if budgets == self.budgets:
            return
        self.budgets = budgets
        self._has_budgets = self._has_budgets or bool(budgets)
        self._refusing.clear()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def count_waiting(self, budget: str, scope: str) -> int:
        """Return how many requests of this process wait for room in a budget of a scope."""
        return self._waiting[budget, scope]

    def get_last_reserved(self, budget: str, scope: str) -> int:
        """Return what the last request of this process was to reserve in a budget of a scope; 0 if there was none."""
        return self._last_reserved.get((budget, scope), 0)

    async def require_price(self, model: str, caller: Caller, preset: str) -> None:
        """Raise Invalid if a budget applies to a run and its model has no price in the budget's currency."""
        if shares := self.list_shares(caller, preset):
            quote = await self.prices.find(model, "", self.clock.now())
            if problem := self.describe_price_problem(model, quote, shares):
                raise Invalid(problem, {"field": "model"})

    def describe_price_problem(self, model: str, quote: Quote | None, shares: Sequence[BudgetShare]) -> str:
        """Return why a model cannot be used under the budgets of these shares; empty if it can."""
        rules = {share.budget: self.budgets[share.budget] for share in shares}
        wrong = [name for name, rule in rules.items() if quote is None or rule.currency != quote.price.currency]
        if not wrong:
            return ""
        reason = "has no price" if quote is None else f"has a price in {quote.price.currency}"
        shown = mask_model(model)
        advice = f'set [prices."{shown}"] in {rules[wrong[0]].currency}'
        return f"the model {shown} {reason}, and the budget {wrong[0]} applies to this run: {advice}"

    def list_shares(self, caller: Caller, preset: str, currency: str = "") -> tuple[BudgetShare, ...]:
        """Return the rows of the budgets that a run counts to now, in the order of their keys.

        With a currency only those of the budgets that are in it.
        """
        if not self.budgets:
            return ()
        now = self.clock.now()
        shares = [
            BudgetShare(budget=name, scope=scope, period=rule.find_period(now), limit_micros=rule.micros)
            for name, rule in self.budgets.items()
            if (scope := rule.find_scope(caller, preset)) is not None and currency in ("", rule.currency)
        ]
        return tuple(sorted(shares, key=list_key))

    def limit_output(self, request: ModelRequest) -> ModelRequest:
        """Return the request with a limit for its answer: its own, that of its model, or that of the server."""
        configured = self._model_options.get(request.model, DEFAULT_OPTIONS)
        limit = request.options.max_tokens or configured.max_tokens or self._reserve_output_tokens
        return replace(request, options=replace(request.options, max_tokens=limit))

    def count_output_tokens(self, request: ModelRequest, model: str) -> int:
        """Return how many tokens the answer of a model has at most: the request's own one, or a fallback.

        Some providers allow thinking in addition to the limit, and one of them a number of tokens at least.
        """
        configured = self._model_options.get(model, DEFAULT_OPTIONS)
        budget = request.options.budget or configured.budget
        return request.options.max_tokens + (max(budget, MIN_THINKING_TOKENS) if budget else 0)

    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        """Reserve in all budgets or in none. Return the first budget that has no room; None if all have."""
        attempt = partial(self._ledger.reserve, reservation)
        full = await self._retry(attempt)
        if full is None:
            return None
        await self._retry(self.settle)  # ended turns may still hold more than they cost
        full = await self._retry(attempt)
        if full is not None and not self.asks(full.budget):
            self._warn_of_refusal(full, reservation.micros)
        return full

    def remember(self, reservation: Reservation) -> None:
        """Remember what a request is to reserve, so that people are told before another one has no room."""
        if len(self._last_reserved) >= MAX_REMEMBERED:
            self._last_reserved.clear()
        for share in reservation.shares:
            self._last_reserved[share.budget, share.scope] = reservation.micros

    async def reserve_call(self, conversation: str, call_id: str, cost: Cost, run: RunState) -> Problem | None:
        """Reserve what a call of a tool with a price costs. Return why it must not run; None if it may."""
        shares = self.list_shares(run.request.caller, run.settings.preset, cost.currency)
        if not shares:
            return None
        reservation = Reservation(
            conversation=conversation,
            turn=f"{CALL_PREFIX}{call_id}",
            attempt=0,  # a call that is run again costs its price once
            at=self.clock.now(),
            micros=cost.micros,
            shares=shares,
        )
        full = await self.reserve(reservation)
        return describe_full(full, "call") if full is not None else None

    async def price_lost_requests(self, conversation: str, state: State) -> LostCosts:
        """Return what the requests of a run cost whose owners died in them, if nobody asks for them again.

        Under a budget that is what was reserved for the last attempt, and nothing was sent of what was not. Without
        one it is the input.
        """
        run, turn = state.run, state.turn
        assert run is not None
        quote = await self.prices.find(run.model, "", self.clock.now())
        if quote is None:
            return LostCosts()
        reserved: Mapping[str, int] = {}
        if self._has_budgets:
            reserved = await self._retry(partial(self._ledger.read_reserved, conversation))

        def price(request: str) -> Cost | None:
            if request not in reserved:
                return None
            micros, currency = reserved[request], quote.price.currency
            return Cost(micros=micros, currency=currency, price=quote.version, estimated=True)

        cost = price(str(turn.number)) if turn is not None else None
        if turn is not None and cost is None and not self.list_shares(run.request.caller, run.settings.preset):
            input_cost = compute_cost(Usage(input_tokens=max(1, state.tokens)), quote).micros
            cost = compute_cost(Usage(), quote, lost_micros=turn.owners * input_cost, estimated=True)
        return LostCosts(turn=cost, summary=price(name_summary(state)))

    def asks(self, budget: str) -> bool:
        """Return whether runs without room in a budget wait until its amount is raised."""
        rule = self.budgets.get(budget)
        return rule is not None and rule.on_reach == "ask"

    async def wait_for_change(self, share: BudgetShare, seen: Budgets) -> None:
        """Wait until a budget may have room again: the budgets are no longer those that were seen, or after a while.

        The window of a budget may end meanwhile, and others may use less than they reserved. Each caller is counted as
        a run that waits.
        """
        if self.budgets is not seen:
            return
        budget = share.budget, share.scope
        if not self._waiting[budget]:
            _log.warning("budget %s is used up: requests wait until its amount is raised", share.budget)
        self._waiting[budget] += 1
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), RETRY_S)
        finally:
            self._waiting -= Counter([budget])  # drops it at 0

    async def _retry(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work, and again a few times while the store is down."""
        for wait_s in STORE_RETRIES_S:
            try:
                return await work()
            except StoreDown:
                await self._sleep(wait_s)
        return await work()

    def settle_soon(self, spawn: Spawn) -> None:
        """Charge what ended turns cost to their budgets, in the background."""
        if self._has_budgets and not self._is_settling:
            self._is_settling = True
            spawn(self._settle_later())

    async def _settle_later(self) -> None:
        await self._sleep(SETTLE_DELAY_S)
        self._is_settling = False
        if self._is_closed:
            return
        try:
            await self.settle()
        except StoreDown as error:
            _log.warning("what turns cost could not be charged to their budgets yet: %s", error)

    async def settle(self) -> None:
        """Charge what ended turns cost to their budgets. Doing so again, at any replica, charges nothing twice."""
        settled = MAX_SETTLED
        while settled == MAX_SETTLED:
            settled, charges = await self._ledger.settle_reservations(self.clock.now(), MAX_SETTLED)
            for charge in charges:
                self._warn(charge)

    async def close(self) -> None:
        """Charge what is left. Whatever cannot be charged now, another process charges later."""
        self._is_closed = True
        if self._has_budgets:
            with suppress(StoreDown):
                await self.settle()

    def _warn(self, charge: BudgetCharge) -> None:
        """Log a warning if a charge crosses a share of its budget: of all replicas, the one that crosses it does."""
        rule = self.budgets.get(charge.budget)
        if rule is None:
            return
        for percent in reversed(WARNING_PERCENTS):
            bound = rule.micros * percent // 100
            if charge.spent_before < bound <= charge.spent:
                name = self._name_row(charge)
                _log.warning("budget %s: %d %% is spent (%s)", name, percent, charge.period)
                return

    def _warn_of_refusal(self, full: BudgetShare, micros: int) -> None:
        """Log the first refusal of a budget: less than all of it is spent then, as requests reserve the most."""
        if (key := list_key(full)) in self._refusing:
            return
        if len(self._refusing) >= MAX_REMEMBERED:
            self._refusing.clear()
        self._refusing.add(key)
        name, cost = self._name_row(full), micros / MICROS
        _log.warning("budget %s: no room for a request that may cost %.6f, refused (%s)", name, cost, full.period)

    def _name_row(self, row: BudgetShare | BudgetCharge) -> str:
        rule = self.budgets.get(row.budget)
        return f"{row.budget} of {rule.scope} {row.scope}" if rule is not None and row.scope else row.budget


def describe_full(full: BudgetShare, refused: Literal["request", "call"]) -> Problem:
    """Return the problem of a request or a call that a budget has no room for."""
    error = f"the budget {full.budget} has no room for this {refused} ({full.period})"
    details: dict[str, object] = {"budget": full.budget, "period": full.period}
    return Problem(error=error, error_type=BUDGET_EXCEEDED, details=details)
