"""The engine's interface for surfaces: submit commands, follow conversations, read their state, list what exists.

Wire protocols are left to the surfaces, and driving conversations to `ownership`.
"""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import CallEnded, Durable, Entry
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.ports import Clock, McpProxy
from toolyard.core.settings.texts import CustomTexts
from toolyard.core.store import BudgetBalance, Store, UsageQuery, UsageRow
from toolyard.core.store.audit_chain import AuditEntry, AuditQuery, clean_reference
from toolyard.core.store.figures import select_step
from toolyard.engine.access.instructions import Instructions
from toolyard.engine.access.presets import Presets
from toolyard.engine.access.refusals import FailedSignIns, RefusedAttempts
from toolyard.engine.access.shares import Shares
from toolyard.engine.dependencies import Deps
from toolyard.engine.documents import DocumentReader
from toolyard.engine.replicas.command_delivery import CommandDelivery
from toolyard.engine.replicas.housekeeping import Housekeeping
from toolyard.engine.replicas.message_handler import Replicas
from toolyard.engine.replicas.ownership import STOPPING, Driver
from toolyard.engine.replicas.readiness import StoreProbe
from toolyard.engine.replicas.requests import Requests
from toolyard.engine.replicas.takeover import Takeover
from toolyard.engine.service.conversations import Conversations, require_overseer
from toolyard.engine.service.feedback import Feedback
from toolyard.engine.service.models import Models
from toolyard.engine.service.runs import Runs, StartedRun
from toolyard.engine.service.titles import Titles
from toolyard.engine.service.tools import Tools
from toolyard.engine.spending.spending import Spending
from toolyard.engine.spending.usage_rows import SPENDING_EVENTS
from toolyard.observability.auditor import Auditor
from toolyard.observability.figures import FigureRecorder
from toolyard.observability.metrics import Load, Metrics
from toolyard.observability.run_log import RunLog
from toolyard.observability.telemetry import Handlers, Observer, Observers
from toolyard.observability.wire_log import WireLog

__all__ = ["Service", "StartedRun"]


class Service:
    """What surfaces call. Methods raise errors of `core.errors`, which the surfaces map to their protocols."""

    def __init__(
        self,
        deps: Deps,
        store: Store,
        tasks: asyncio.TaskGroup,
        mcp_proxy: McpProxy,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._deps = deps
        self.mcp_proxy = mcp_proxy
        self._store = store
        self.shares = Shares(store, deps.clock)
        self.presets = Presets(store, deps.clock)
        self.instructions = Instructions(store)
        self.feedback = Feedback(store, deps.clock)
        self.documents = DocumentReader()
        self.auditor = Auditor(store, deps.clock)
        self.failed_sign_ins = FailedSignIns(self.auditor, tasks.create_task)
        self.refused_attempts = RefusedAttempts(self.auditor, tasks.create_task)
        self._figures = FigureRecorder(store, deps.clock.now, tasks.create_task, self._find_state)
        settler: Handlers = dict.fromkeys(SPENDING_EVENTS, self._settle_soon)
        self._observers = Observers(RunLog(self._find_state).handlers, self._figures.handlers, settler, *observers)
        self._driver = Driver(deps, store, tasks, self._observers.observe)
        housekeeping = Housekeeping(deps, store, self._driver, self.auditor)
        self._takeover = Takeover(deps, store, self._driver, housekeeping)
        self._probe = StoreProbe(store, tasks)
        self._requests = Requests(store, deps.clock)
        self._delivery = CommandDelivery(deps, store, self._driver, self._requests)
        self._replicas = Replicas(store, self._driver, self._delivery)
        self._tasks = tasks
        self.conversations = Conversations(
            deps, store, self._driver, self._requests, self._delivery, self.auditor, self.refused_attempts, self.presets
        )
        self.runs = Runs(deps, store, self._driver, self.conversations)
        self.tools = Tools(deps, self._driver, mcp_proxy)
        self.models = Models(deps)
        self._metrics: Metrics | None = None  # no cached property: its value in a dict slows every access down
        self._observers.add(Titles(deps, self.conversations, self.runs, self._driver).handlers)

    async def start(self) -> None:
        """Resume every run that an earlier process left open, and wake runs when their waits are over."""
        await self._deps.spending.start()
        self._takeover.start(self._tasks)
        self._replicas.start(self._tasks)

    def _settle_soon(self, _: Entry, event: Durable) -> None:
        if not isinstance(event, CallEnded) or event.cost is not None:
            self._deps.spending.settle_soon(self._tasks.create_task)

    @property
    def metrics(self) -> Metrics:
        """Return the metrics of this process. They are counted from the first use on: only servers show them."""
        if self._metrics is None:
            self._metrics = Metrics(lambda tool: self._deps.registry.find(tool) is not None, self._find_state)
            self._observers.add(self._metrics.handlers)
        return self._metrics

    @property
    def clock(self) -> Clock:
        return self._deps.clock

    @property
    def default_settings(self) -> Settings:
        return self._deps.default_settings

    @property
    def wire_log(self) -> WireLog | None:
        return self._deps.wire_log

    @property
    def texts(self) -> CustomTexts:
        return self._deps.texts

    @property
    def spending(self) -> Spending:
        """Return the prices and budgets of this server."""
        return self._deps.spending

    async def read_usage(self, query: UsageQuery) -> Sequence[UsageRow]:
        """Return the usage of models and tools. Permission is not checked here."""
        return await self._store.read_usage(query)

    async def read_balances(self, periods: Sequence[str]) -> Sequence[BudgetBalance]:
        """Return what was spent of the budgets in these periods. Permission is not checked here."""
        return await self._store.read_balances(periods)

    async def read_audit(self, query: AuditQuery) -> Sequence[AuditEntry]:
        """Return a page of the audit log. Permission is not checked here."""
        tenant = None if query.tenant is None else clean_reference(query.tenant)
        return await self._store.read_audit(replace(query, tenant=tenant, actor=clean_reference(query.actor)))

    async def find_unreadiness(self) -> str:
        """Return why this process is not ready, without paths; empty if it is ready."""
        return STOPPING if self._deps.leaving else await self._probe.find_problem()

    async def find_store_problem(self) -> str:
        """Return why the store accepts no write, without paths; empty if it does."""
        return await self._probe.find_problem()

    async def read_figures(
        self, caller: Caller, since: float, until: float, *, points: int, everyone: bool = False
    ) -> Sequence[tuple[float, bytes]]:
        """Return the encoded figures of the caller's runs in a period, in steps that show it in that many points.

        `everyone` includes the runs of other users and needs a role that may see them.
        """
        if everyone:
            require_overseer(caller)
        if not everyone and not caller.user:
            return ()  # an empty user would select the figures of everybody
        step_s = select_step(until - since, points)
        return await self._figures.read(caller.tenant, "" if everyone else caller.user, step_s, since)

    async def measure_load(self) -> Load:
        """Return the current load. Waiting runs are counted in the store: most of them are in no process's memory."""
        states = [journal.state for journal in self._driver]
        counts = await self._store.count_open(self._deps.clock.now())
        return Load(
            running=sum(state.run is not None and state.run.suspended_at is None for state in states),
            waiting=counts.waiting,
            queued=sum(len(state.queue) for state in states),
            open_streams=sum(journal.readers.attached for journal in self._driver) + self._driver.views.open_streams,
        )

    @property
    def replica(self) -> str:
        """Return the id of this process among those that share the store; empty if no others do."""
        return self._store.replica if self._store.is_shared else ""

    def stop_claiming(self) -> None:
        """Say that this process is not ready, and leave due work to others. Requests are still served."""
        self._deps.leaving = True
        self._takeover.stop()

    async def close(self, grace_s: float) -> None:
        """Start nothing new, give running work `grace_s` to end, then cancel it. The next process resumes such work."""
        self._deps.leaving = True
        self._takeover.stop()
        await self._driver.close(grace_s)
        await self._figures.close()
        await self._deps.spending.close()
        await self.failed_sign_ins.close()
        await self.refused_attempts.close()
        self._replicas.close()

    def _find_state(self, conversation: str) -> State | None:
        return self._driver.find_state(conversation)
