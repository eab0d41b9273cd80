"""Prices one request to a model with all its attempts, and reserves what they may cost."""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from toolyard.core.conversation.context.token_estimate import estimate_text_tokens, estimate_tokens
from toolyard.core.conversation.events import TurnEnded, TurnFailed
from toolyard.core.conversation.state import State
from toolyard.core.items import Problem, Result, Usage
from toolyard.core.model_failures import HOSTED_CALL, INTERRUPTED, WAITS_UNTIL
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.prices import Cost, Quote, compute_bound, compute_cost
from toolyard.core.store import BudgetShare, Reservation
from toolyard.engine.spending.spending import Spending, describe_full
from toolyard.tool_index.find_tools_result import estimate_tool_bytes

UNPRICED_MODEL = "unpriced_model"
"""The error type of a turn whose model has no price, although a budget applies to it."""
DEFAULT_TOOL_USES = 5
"""Uses of a provider's tool that are reserved, and allowed, where its options set no limit for a turn."""
MAX_ATTEMPTS = 1_000
"""Attempts of one owner: those of the next one are numbered from there on."""
MAX_WAIT_S = 24 * 3600.0
"""How long a run waits at most for somebody to raise a budget."""
Turn = TypeVar("Turn", bound=TurnEnded | TurnFailed)


class TurnMeter:
    """Prices one request to a model with all its attempts, and reserves what they may cost."""

    # Each turn has a meter: what most turns never change is a default of the class.
    full_share: BudgetShare | None = None
    """The budget that had no room for the last attempt."""
    _shares: tuple[BudgetShare, ...] = ()
    _attempt = 0
    _asked = ""
    """The model of the last attempt."""
    _lost_micros = 0
    _reserved_micros = 0
    """What was reserved for the last attempt, with what those before it cost."""
    _input_tokens = 0
    _is_admitted = True
    """Whether the request may be sent: under a budget only once something is reserved for it."""

    def __init__(
        self,
        spending: Spending,
        conversation: str,
        epoch: int,
        state: State,
        request: ModelRequest,
        *,
        name: str = "",
    ) -> None:
        """`name` is that of a request that is not a turn, such as one for a summary."""
        run = state.run
        assert run is not None
        self._spending = spending
        self._conversation = conversation
        self._name = name
        self._state = state
        self._lost_attempts = state.turn.owners if state.turn is not None and not name else 0
        """Earlier owners of the turn that died: their requests may have been answered, and charged."""
        self.request = request
        if spending.budgets and (shares := spending.list_shares(run.request.caller, run.settings.preset)):
            self._shares, self._is_admitted = shares, False
            self._attempt, self._asked = epoch * MAX_ATTEMPTS, request.model
            self.request = replace(
                spending.limit_output(request),
                admit_attempt=self._admit_attempt,
                default_tool_uses=DEFAULT_TOOL_USES,
            )

    async def reserve(self) -> TurnFailed | None:
        """Reserve what the request may cost. Return why it must not be sent; None if it may."""
        return await self._reserve(self.request.model) if self._shares else None

    @property
    def output_limit(self) -> int:
        """Return the limit of the answer under a budget; 0 without one, which is the provider's."""
        return self.request.options.max_tokens if self._shares else 0

    async def add_cost(self, event: Turn, read_written: Callable[[], str] = str) -> Turn:
        """Return the end of the turn with its cost. `read_written` returns what has arrived of a reply that is lost."""
        model, reported = self.request.model, ""
        if isinstance(event, TurnEnded):
            model, reported = event.fallback or model, event.model
        quote = await self._spending.prices.find(model, reported, self._spending.clock.now())
        if quote is None:
            return event
        lost_micros = self._sum_lost(quote)
        if isinstance(event, TurnEnded) and event.finish != "cancelled":
            is_uncounted = not event.usage.total and quote.price.has_token_price
            usage = self._estimate_usage(event) if is_uncounted else event.usage
            return replace(event, cost=compute_cost(usage, quote, lost_micros=lost_micros, estimated=is_uncounted))
        written = read_written()
        problem = event.problem if isinstance(event, TurnFailed) else None
        is_lost = bool(written) or (problem is not None and _is_interrupted(problem))
        if is_lost or lost_micros:
            usage = Usage(input_tokens=self.input_tokens, output_tokens=estimate_text_tokens(written))
            lost_usage = usage if is_lost else Usage()
            return replace(event, cost=compute_cost(lost_usage, quote, lost_micros=lost_micros, estimated=True))
        return event

    def _estimate_usage(self, event: TurnEnded) -> Usage:
        """Return the estimated usage of a reply whose provider has counted no tokens: it is not free."""
        output_tokens = sum(estimate_tokens(item) for item in event.items if not isinstance(item, Result))
        return replace(event.usage, input_tokens=self.input_tokens, output_tokens=output_tokens)

    def estimate_cost(self, written: str) -> Cost | None:
        """Return the estimated cost of a request that is stopped; None if it is unknown."""
        quote = self._spending.prices.get(self.request.model, "", self._spending.clock.now())
        if quote is None or not self._is_admitted:
            return None
        usage = Usage(input_tokens=self.input_tokens, output_tokens=estimate_text_tokens(written))
        return compute_cost(usage, quote, lost_micros=self._sum_lost(quote), estimated=True)

    def estimate_unseen_cost(self) -> Cost | None:
        """Return the estimated cost of a request whose answer nobody has seen; None if it is unknown, or was not sent.

        Under a budget that is what was reserved: with less, stopping answers would make them free.
        """
        cost = self.estimate_cost("")
        if cost is None or not self._shares:
            return cost
        return replace(cost, micros=self._reserved_micros)

    async def estimate_lost_cost(self) -> Cost | None:
        """Return the estimated cost of the attempts of earlier owners alone; None if it is unknown."""
        quote = await self._find_quote(self.request.model)
        return compute_cost(Usage(), quote, lost_micros=self._sum_lost(quote), estimated=True) if quote else None

    @property
    def input_tokens(self) -> int:
        """Return the estimated input. Before the provider has counted any, prompt and tools are estimated, too."""
        if not self._input_tokens:
            state, request = self._state, self.request
            tokens = state.tokens
            if not state.provider_items:
                tools = sum(map(estimate_tool_bytes, request.offer.tools)) // 4
                prompts = estimate_text_tokens(request.system) + estimate_text_tokens(request.instructions)
                tokens = request.history.tokens + prompts + tools
            self._input_tokens = max(1, tokens)
        return self._input_tokens

    def _sum_lost(self, quote: Quote) -> int:
        """Return the estimated cost of the attempts before this one: their input was read, as far as anybody knows."""
        if not self._lost_attempts:
            return self._lost_micros
        input_cost = compute_cost(Usage(input_tokens=self.input_tokens), quote).micros
        return self._lost_micros + self._lost_attempts * input_cost

    async def _admit_attempt(self, name: str, failure: Problem) -> TurnFailed | None:
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
            tool.name: (tool.options.max_uses if tool.options else 0) or self.request.default_tool_uses
            for tool in self.request.offer.tools
            if tool.venue == "provider"
        }
        output_tokens = spending.count_output_tokens(self.request, model)
        # Only a client of the provider's own API can ask for the cache of an hour.
        is_native = self.request.native is not None
        micros = compute_bound(quote.price, self.input_tokens, output_tokens, uses, caches_for_an_hour=is_native)
        micros += self._sum_lost(quote)  # it takes the place of what earlier attempts have reserved
        reservation = Reservation(
            conversation=self._conversation,
            turn=self._name or str(self.request.turn),
            attempt=self._attempt,
            at=spending.clock.now(),
            micros=micros,
            shares=self._shares,
        )
        run = self._state.run
        if run is not None and not run.settings.unlisted:  # a title costs less than the next answer
            spending.remember(reservation)
        self.full_share = full = await spending.reserve(reservation)
        if full is None:
            self._is_admitted, self._reserved_micros = True, micros
            return None
        problem = describe_full(full, "request")
        if spending.asks(full.budget):
            problem = replace(problem, details={**problem.details, WAITS_UNTIL: self._find_end_of_wait()})
        return TurnFailed(problem=problem)

    def _find_end_of_wait(self) -> float:
        """Return until when the run waits for room in its budgets: it may have begun to wait before this attempt."""
        failure = self._state.run.failure if self._state.run is not None else None
        begun = failure.details.get(WAITS_UNTIL) if failure is not None else None
        return begun if isinstance(begun, float) else self._spending.clock.now() + MAX_WAIT_S


def _is_interrupted(problem: Problem) -> bool:
    """Return whether the provider may charge for a request that failed so."""
    return bool(problem.details.get(INTERRUPTED) or problem.details.get(HOSTED_CALL))
