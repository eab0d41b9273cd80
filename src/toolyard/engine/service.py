"""What a surface may ask of the engine: submit a command, follow a conversation, look at its state.

It owns the conversations of this process: it claims one when somebody asks for it, drives it while there is something
to do, wakes it when a wait is over, and lets go of it when it is idle. It does not know any wire protocol.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Literal

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.commands import Approve, Command, Deliver, Start
from toolyard.core.cursor import Cursor
from toolyard.core.decide import decide
from toolyard.core.errors import Invalid, Misconfigured, NotFound, RateLimited, Refused, StoreDown, Unavailable
from toolyard.core.events import Entry
from toolyard.core.items import Item, Problem
from toolyard.core.limits import Limits
from toolyard.core.plan import Rest, plan
from toolyard.core.ports import Allowance, Card, Failure, Mint, Store, Value
from toolyard.core.results import failed
from toolyard.core.settings import Settings
from toolyard.core.state import CallState, State
from toolyard.core.tools import Tool
from toolyard.engine.journal import Journal
from toolyard.engine.loop import drive
from toolyard.engine.readers import Reader
from toolyard.engine.telemetry import Telemetry
from toolyard.engine.workers import Deps

MOST_IDLE = 1024
LONGEST_NAP_S = 3600.0
STORE_DOWN_NAP_S = 5.0

_log = logging.getLogger("toolyard.service")


class Health(Struct, frozen=True, kw_only=True):
    """The tools that have a schema, and the tools that some venue would run."""

    model: str
    schemas: list[str]
    dispatchers: list[str]


class Service:
    def __init__(self, deps: Deps, store: Store, tasks: asyncio.TaskGroup) -> None:
        self._deps = deps
        self._store = store
        self._tasks = tasks
        self._telemetry = Telemetry()
        self._journals: dict[str, Journal] = {}
        self._opening: dict[str, asyncio.Event] = {}
        self._drivers: dict[str, asyncio.Task[None]] = {}
        self._alarm = asyncio.Event()
        self._alarms: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take up every run that an earlier process left open, and keep watch over waits."""
        self._alarms = self._tasks.create_task(self._watch())

    async def submit(self, conversation: str, command: Command) -> None:
        """Have a command decided. When this returns its events are stored. Raises Refused or Invalid."""
        if self._deps.draining:
            raise Unavailable("the server is about to stop; send this again in a moment")
        journal = await self._owned(conversation)
        self._check(command, journal.state)
        events = decide(journal.state, command, self._deps.mint.now())
        run_id = command.run_id if isinstance(command, Start) else ""
        journal.emit(*events, run=run_id, correlation_id=command.correlation_id)
        self._wake(journal)
        await journal.committed()

    def request(
        self,
        caller: Caller,
        input: Sequence[Item],
        *,
        correlation_id: str = "",
        tool_choice: str = "auto",
        model: str = "",
        limits: Limits | None = None,
        settings: Settings | None = None,
        app_tools: Sequence[Tool] = (),
        interrupt: bool = False,
    ) -> Start:
        """A Start with an id of its own and what this yard gives by default."""
        mint = self._deps.mint
        return Start(
            by=caller,
            correlation_id=correlation_id or mint.id("trace"),
            run_id=mint.id("run"),
            input=tuple(input),
            app_tools=tuple(app_tools),
            tool_choice=tool_choice,
            model=model,
            limits=limits,
            settings=settings or self._deps.default_settings,
            queue_limit=self._deps.limits.queued_messages,
            interrupt=interrupt,
        )

    @property
    def mint(self) -> Mint:
        return self._deps.mint

    @property
    def default_settings(self) -> Settings:
        return self._deps.default_settings

    async def known(self, conversation: str, caller: Caller, may: Literal["see", "decide", "own"] = "own") -> Card:
        """The card of a conversation in which this caller may do so much. Raises NotFound for any other."""
        card = await self._store.card(conversation)
        if card is not None:
            owner = Caller(user=card.user, tenant=card.tenant)
            allowed = {"see": caller.may_see, "decide": caller.may_decide_for, "own": caller.owns}[may]
            if allowed(owner):
                return card
        raise NotFound(f"there is no conversation {conversation[:80]!r}")

    def health(self) -> Health:
        """What is offered, and what can be run."""
        registry = self._deps.registry
        return Health(model=self._deps.default_model, schemas=registry.names(), dispatchers=registry.dispatchable())

    async def forget(self, conversation: str) -> None:
        """Stop what runs in it and delete it, with everything that belongs to it."""
        journal = self._journals.pop(conversation, None)
        if driver := self._drivers.get(conversation):
            driver.cancel()
            await asyncio.wait((driver,))
        await self._store.forget(conversation)
        if journal is not None:
            journal.readers.fail(NotFound("the conversation was deleted"))

    async def admit(self, caller: Caller) -> Allowance:
        """Count a new request of this caller. Raises RateLimited with the time to come again."""
        per_minute = self._deps.requests_per_minute
        if not per_minute:
            return Allowance(granted=True, remaining=0, retry_after_s=0.0)
        allowance = await self._store.take(f"{caller.tenant}/{caller.user}", per_minute, self._deps.mint.now())
        if not allowance.granted:
            said = f"more than {per_minute} requests in a minute; come again in {allowance.retry_after_s:.0f} s"
            raise RateLimited(said, retry_after_s=allowance.retry_after_s)
        return allowance

    async def deliver(self, conversation: str, call_id: str, answer: Value | Failure, by: Caller) -> None:
        """Hand in the application's result for a call that it was given. Raises Refused for any but the first."""
        journal = await self._owned(conversation)
        call = journal.state.calls.get(call_id)
        tool = self._tool(call, journal.state) if call else None
        if call is None or tool is None:
            raise Refused(f"call {call_id!r} does not wait for a result: it has ended or never was")
        trial = failed(call.call, "error", Problem(error="", error_type=""), 0.0)
        decide(journal.state, Deliver(by=by, result=trial), self._deps.mint.now())  # before anything is kept
        result = await self._deps.governor.result(call.call, tool, answer, conversation=conversation)
        await self.submit(conversation, Deliver(by=by, result=result))

    async def follow(self, conversation: str, after: Cursor | None = None) -> Reader:
        """Every entry after the cursor, or from now on, then what happens, without end. Detach it when done."""
        journal = await self._owned(conversation)
        return journal.follow(Cursor(journal.readers.stored) if after is None else after)

    async def entries(self, conversation: str, *, after: int = 0, until: int = 0) -> Sequence[Entry]:
        """The stored entries after one and up to another, or up to the last."""
        return await self._store.read(conversation, after, max(0, until - after))

    async def state(self, conversation: str) -> State:
        return (await self._owned(conversation)).state

    async def close(self, grace_s: float) -> None:
        """Begin nothing new, let running work end for a while, then let go. What was cut off is taken up later."""
        self._deps.draining = True
        if self._alarms:
            self._alarms.cancel()
        for journal in self._journals.values():
            journal.signal()
            journal.readers.fail(Unavailable("the server is about to stop; come back with the last event's id"))
        drivers = list(self._drivers.values())
        if drivers:
            _, late = await asyncio.wait(drivers, timeout=grace_s)
            for driver in late:
                driver.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _check(self, command: Command, state: State) -> None:
        """What needs the tools to be checked, and so cannot be left to `decide`."""
        if isinstance(command, Start):
            self._check_start(command)
        elif isinstance(command, Approve) and command.arguments is not None:
            call = state.calls.get(command.call_id)
            problem = self._deps.judge.check(call, state, command.arguments) if call else None
            if problem:
                raise Invalid(problem.error, problem.details)

    def _check_start(self, command: Start) -> None:
        registry, allowed = self._deps.registry, self._deps.allowed_models
        if command.model and allowed is not None and command.model not in allowed:
            known = ", ".join(sorted(allowed))
            raise Invalid(f"the model {command.model[:80]!r} is not one of: {known}", {"field": "model"})
        try:
            registry.check_app_tools(command.app_tools)
        except Misconfigured as error:
            raise Invalid(str(error)) from None
        choice = command.tool_choice
        if choice not in ("auto", "none", "required") and registry.find(choice, command.app_tools) is None:
            raise Invalid(registry.unknown(choice, registry.names()).error, {"field": "tool_choice"})

    def _tool(self, call: CallState, state: State) -> Tool | None:
        entry = self._deps.registry.find(call.call.tool, state.run.request.app_tools if state.run else ())
        return entry.tool if entry else None

    async def _owned(self, conversation: str) -> Journal:
        """The journal of a conversation that this process owns, claimed and folded if it was not."""
        while opening := self._opening.get(conversation):
            await opening.wait()
        journal = self._journals.get(conversation)
        if journal is not None and not journal.broken:
            return journal
        self._opening[conversation] = opened = asyncio.Event()
        try:
            epoch = await self._store.claim(conversation)
            entries = await self._store.read(conversation) if epoch > 1 else ()
            journal = Journal(
                conversation,
                epoch,
                entries,
                log=self._store,
                mint=self._deps.mint,
                spawn=self._spawn,
                observe=self._telemetry.observe,
            )
            self._journals[conversation] = journal
            return journal
        finally:
            del self._opening[conversation]
            opened.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.create_task(work)

    def _wake(self, journal: Journal) -> None:
        if journal.conversation not in self._drivers:
            self._drivers[journal.conversation] = self._tasks.create_task(self._drive(journal))

    async def _drive(self, journal: Journal) -> None:
        try:
            while not self._at_rest(journal):
                await drive(journal, self._deps)
        except Exception as error:  # this conversation is let go of; whoever asks for it next claims it anew
            if journal.broken:
                _log.warning("conversation %s: %s", journal.conversation, journal.broken)
            else:
                _log.exception("conversation %s could not be driven", journal.conversation, exc_info=error)
                self._journals.pop(journal.conversation, None)
        finally:
            del self._drivers[journal.conversation]
            self._rested(journal)

    def _at_rest(self, journal: Journal) -> bool:
        state = journal.sound_state()
        return self._deps.draining or isinstance(plan(state, journal.epoch, self._deps.mint.now()), Rest)

    def _rested(self, journal: Journal) -> None:
        if journal.broken:
            self._journals.pop(journal.conversation, None)
        elif journal.state.wake_at:
            self._alarm.set()
        if len(self._journals) > MOST_IDLE:
            idle = [key for key, one in self._journals.items() if key not in self._drivers and not one.busy]
            for key in idle[: len(self._journals) - MOST_IDLE // 2]:
                del self._journals[key]

    async def _watch(self) -> None:
        """Wake the conversations whose time has come; sleep until the next one's."""
        while True:
            self._alarm.clear()
            try:
                nap_s = await self._wake_due()
            except StoreDown as error:
                _log.warning("the store cannot be asked which runs are due: %s", error)
                nap_s = STORE_DOWN_NAP_S
            try:
                async with asyncio.timeout(nap_s):
                    await self._alarm.wait()
            except TimeoutError:
                pass

    async def _wake_due(self) -> float:
        """How long until the next one is due."""
        now = self._deps.mint.now()
        due, next_at = await self._store.due(now)
        for conversation in due:
            self._wake(await self._owned(conversation))
        return LONGEST_NAP_S if next_at is None else min(LONGEST_NAP_S, max(0.0, next_at - now))
