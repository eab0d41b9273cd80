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
from typing import TypeVar

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import TurnEnded, TurnFailed
from toolyard.core.conversation.state import State
from toolyard.core.conversation.token_estimate import estimate_text_tokens
from toolyard.core.errors import Invalid, StoreDown
from toolyard.core.items import Problem, Usage
from toolyard.core.masking import mask_model
from toolyard.core.model_failures import BUDGET_EXCEEDED, HOSTED_CALL, INTERRUPTED
from toolyard.core.ports import Clock, ModelRequest, PriceFinder, Spawn
from toolyard.core.settings.budgets import NO_BUDGETS, RESERVE_OUTPUT_TOKENS, WARNING_PERCENTS, Budgets
from toolyard.core.settings.options import DEFAULT_OPTIONS, Options
from toolyard.core.settings.prices import Cost, Quote, compute_bound, compute_cost
from toolyard.core.store import BudgetCharge, BudgetShare, Ledger, Reservation
from toolyard.core.store.ledger import list_key
from toolyard.tool_index.find_tools_result import estimate_tool_bytes

UNPRICED_MODEL = "unpriced_model"
"""The error type of a turn whose model has no price, although a budget applies to it."""
DEFAULT_TOOL_USES = 5
"""Uses of a provider's tool that are reserved where its options set no limit for a turn."""
MAX_FALLBACKS = 16
SETTLE_DELAY_S = 0.05
"""How long settlements are gathered, so that one statement charges many of them."""
MAX_SETTLED = 500
"""Reservations that one statement charges: it locks the rows of their budgets."""
STORE_RETRIES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""The waits before a reservation is tried again while the store is down."""
MAX_WAIT_S = 24 * 3600.0
"""How long a request waits at most for somebody to raise a budget."""
RETRY_S = 15.0
"""How often a request that waits for a budget is tried again, besides when the budgets are changed."""
Turn = TypeVar("Turn", bound=TurnEnded | TurnFailed)

_log = logging.getLogger("toolyard.spending")


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
        self._waiting: Counter[str] = Counter()

    def has_budgets(self) -> bool:
        """Return whether there are budgets, or have been: turns may still hold reservations of those."""
        return self._has_budgets

    def replace_budgets(self, budgets: Budgets) -> None:
        """Use other budgets from now on, also for requests that wait for room."""
        if budgets == self.budgets:
            return
        self.budgets = budgets
        self._has_budgets = self._has_budgets or bool(budgets)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def count_waiting(self, budget: str) -> int:
        """Return how many requests of this process wait for room in a budget."""
        return self._waiting[budget]

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

    def list_shares(self, caller: Caller, preset: str) -> tuple[BudgetShare, ...]:
        """Return the rows of the budgets that a run counts to now, in the order of their keys."""
        if not self.budgets:
            return ()
        now = self.clock.now()
        shares = [
            BudgetShare(budget=name, scope=scope, period=rule.find_period(now), limit_micros=rule.micros)
            for name, rule in self.budgets.items()
            if (scope := rule.find_scope(caller, preset)) is not None
        ]
        return tuple(sorted(shares, key=list_key))

    def limit_output(self, request: ModelRequest) -> ModelRequest:
        """Return the request with a limit for its answer: its own, that of its model, or that of the server."""
        configured = self._model_options.get(request.model, DEFAULT_OPTIONS)
        limit = request.options.max_tokens or configured.max_tokens or self._reserve_output_tokens
        return replace(request, options=replace(request.options, max_tokens=limit))

    def count_output_tokens(self, request: ModelRequest) -> int:
        """Return how many tokens an answer has at most. Some providers allow thinking in addition to the limit."""
        configured = self._model_options.get(request.model, DEFAULT_OPTIONS)
        return request.options.max_tokens + (request.options.budget or configured.budget)

    async def reserve(self, reservation: Reservation) -> BudgetShare | None:
        """Reserve in all budgets or in none. Return the first budget that has no room; None if all have."""
        full = await self._try_reserve(reservation)
        if full is None:
            return None
        await self.settle()  # ended turns may still hold more than they cost
        return await self._try_reserve(reservation)

    async def reserve_or_wait(
        self, reservation: Reservation, list_shares: Callable[[], tuple[BudgetShare, ...]]
    ) -> BudgetShare | None:
        """Reserve as `reserve` does, but wait for room in a budget that asks for it, for `MAX_WAIT_S` at most.

        `list_shares` returns the shares of the request in the budgets as they are by then.
        """
        waits_until = self.clock.now() + MAX_WAIT_S
        while True:
            changed = self._changed
            full = await self.reserve(reservation)
            rule = self.budgets.get(full.budget) if full is not None else None
            if full is None or rule is None or rule.on_reach != "ask" or self.clock.now() >= waits_until:
                return full
            if not self._waiting[full.budget]:
                _log.warning("budget %s is used up: requests wait until its amount is raised", full.budget)
            self._waiting[full.budget] += 1
            try:
                with suppress(TimeoutError):  # the window may have changed, or others have used less than they reserved
                    await asyncio.wait_for(changed.wait(), RETRY_S)
            finally:
                self._waiting[full.budget] -= 1
            reservation = replace(reservation, shares=list_shares())

    async def _try_reserve(self, reservation: Reservation) -> BudgetShare | None:
        for wait_s in STORE_RETRIES_S:
            try:
                return await self._ledger.reserve(reservation)
            except StoreDown:
                await self._sleep(wait_s)
        return await self._ledger.reserve(reservation)

    def settle_soon(self, spawn: Spawn) -> None:
        """Charge what ended turns cost to their budgets, in the background."""
        if not self._is_settling and self.budgets:
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
        if self.budgets:
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
                scope = f" of {rule.scope} {charge.scope}" if charge.scope else ""
                _log.warning("budget %s%s: %d %% is spent (%s)", charge.budget, scope, percent, charge.period)
                return


class TurnMeter:
    """Prices one request to a model with all its attempts, and reserves what they may cost."""

    def __init__(
        self,
        spending: Spending,
        conversation: str,
        epoch: int,
        state: State,
        request: ModelRequest,
        *,
        suffix: str = "",
    ) -> None:
        """`suffix` tells a request that is not a turn, such as one for a summary, from the turn of its number."""
        run = state.run
        assert run is not None
        self._spending = spending
        self._conversation = conversation
        self._turn = f"{request.turn}{suffix}"
        self._attempt = epoch * MAX_FALLBACKS
        self._state = state
        self._lost_attempts = state.turn.owners if state.turn is not None and not suffix else 0
        """Earlier owners of the turn that died: their requests may have been answered, and charged."""
        self._lost_micros = 0
        self._list_shares = partial(spending.list_shares, run.request.caller, run.settings.preset)
        self._shares = self._list_shares()
        self._input_tokens = 0
        if self._shares:
            request = replace(spending.limit_output(request), admit_fallback=self._fall_back)
        self.request = request
        self._asked = request.model

    async def reserve(self) -> TurnFailed | None:
        """Reserve what the request may cost. Return why it must not be sent; None if it may."""
        return await self._reserve(self.request.model) if self._shares else None

    @property
    def output_limit(self) -> int:
        """Return the limit of the answer under a budget; 0 without one, which is the provider's."""
        return self.request.options.max_tokens if self._shares else 0

    async def add_cost(self, event: Turn, written: str) -> Turn:
        """Return the end of the turn with its cost. `written` is the text that had arrived of a reply that was lost."""
        model = (event.fallback if isinstance(event, TurnEnded) else "") or self.request.model
        reported = event.model if isinstance(event, TurnEnded) else ""
        quote = await self._spending.prices.find(model, reported, self._spending.clock.now())
        if quote is None:
            return event
        if isinstance(event, TurnEnded) and event.finish != "cancelled":
            return replace(event, cost=compute_cost(event.usage, quote, lost_micros=self._sum_lost(quote)))
        problem = event.problem if isinstance(event, TurnFailed) else None
        is_lost = bool(written) or (problem is not None and _is_interrupted(problem))
        lost_micros = self._sum_lost(quote)
        if is_lost or lost_micros:
            usage = Usage(input_tokens=self.input_tokens, output_tokens=estimate_text_tokens(written))
            lost_usage = usage if is_lost else Usage()
            return replace(event, cost=compute_cost(lost_usage, quote, lost_micros=lost_micros, estimated=True))
        return event

    def estimate_cost(self, written: str) -> Cost | None:
        """Return the estimated cost of a request that is stopped; None if it is unknown."""
        quote = self._spending.prices.get(self.request.model, "", self._spending.clock.now())
        if quote is None:
            return None
        usage = Usage(input_tokens=self.input_tokens, output_tokens=estimate_text_tokens(written))
        return compute_cost(usage, quote, lost_micros=self._sum_lost(quote), estimated=True)

    @property
    def input_tokens(self) -> int:
        """Return the estimated input. Before the provider has counted any, prompt and tools are estimated, too."""
        if not self._input_tokens:
            state, request = self._state, self.request
            tokens = state.tokens
            if not state.provider_items:
                tools = sum(map(estimate_tool_bytes, request.offer.tools)) // 4
                tokens = request.history.tokens + estimate_text_tokens(request.system) + tools
            self._input_tokens = max(1, tokens)
        return self._input_tokens

    def _sum_lost(self, quote: Quote) -> int:
        """Return the estimated cost of the attempts before this one: their input was read, as far as anybody knows."""
        if not self._lost_attempts:
            return self._lost_micros
        input_cost = compute_cost(Usage(input_tokens=self.input_tokens), quote).micros
        return self._lost_micros + self._lost_attempts * input_cost

    async def _fall_back(self, name: str, failure: Problem) -> TurnFailed | None:
        quote, self._asked = await self._find_quote(self._asked), name
        if quote is not None and _is_interrupted(failure):
            self._lost_micros += compute_cost(Usage(input_tokens=self.input_tokens), quote).micros
        self._attempt += 1
        return await self._reserve(name)

    async def _find_quote(self, model: str) -> Quote | None:
        return await self._spending.prices.find(model, "", self._spending.clock.now())

    async def _reserve(self, model: str) -> TurnFailed | None:
        spending, quote = self._spending, await self._find_quote(model)
        problem = spending.describe_price_problem(model, quote, self._shares)
        if quote is None or problem:  # a budget, or the model of a fallback, is newer than the run
            return TurnFailed(problem=Problem(error=problem, error_type=UNPRICED_MODEL))
        uses = {
            tool.name: (tool.options.max_uses if tool.options else 0) or DEFAULT_TOOL_USES
            for tool in self.request.offer.tools
            if tool.venue == "provider"
        }
        output_tokens = spending.count_output_tokens(self.request)
        reservation = Reservation(
            conversation=self._conversation,
            turn=self._turn,
            attempt=self._attempt,
            at=spending.clock.now(),
            micros=compute_bound(quote.price, self.input_tokens, output_tokens, uses),
            estimate_micros=compute_cost(Usage(input_tokens=self.input_tokens), quote).micros,
            shares=self._shares,
        )
        full = await spending.reserve_or_wait(reservation, self._list_shares)
        if full is None:
            return None
        error = f"the budget {full.budget} has no room for this request ({full.period})"
        details: dict[str, object] = {"budget": full.budget, "period": full.period}
        return TurnFailed(problem=Problem(error=error, error_type=BUDGET_EXCEEDED, details=details))


def _is_interrupted(problem: Problem) -> bool:
    """Return whether the provider may charge for a request that failed so."""
    return bool(problem.details.get(INTERRUPTED) or problem.details.get(HOSTED_CALL))
