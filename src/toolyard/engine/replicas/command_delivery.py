"""Brings a command to the process that owns its conversation, decides it there, and returns its outcome.

A conversation that nobody owns is claimed and the command decided here. If another replica owns it, the command is
forwarded: the owner decides it and stores the outcome with the entries, so that it is never decided twice.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import msgspec

from toolyard.codec import decode_command, decode_outcome, encode_command, encode_outcome
from toolyard.core.conversation.commands import ACCEPTED, Delete, Start, StateCommand, describe_error
from toolyard.core.conversation.decide import decide
from toolyard.core.errors import Fenced, Invalid, StoreDown, ToolyardError, Unavailable
from toolyard.core.store import CommandAnswer, ForwardedCommand, OwnedElsewhere, Store
from toolyard.engine.dependencies import Deps
from toolyard.engine.log.journal import Journal
from toolyard.engine.log.replica_messages import CommandAnswered, CommandForwarded, encode_message
from toolyard.engine.loop.call_attempts import price_started_calls
from toolyard.engine.loop.command_checks import bind_tools, check_command
from toolyard.engine.replicas.ownership import STOPPING, Driver
from toolyard.engine.replicas.requests import Requests, release_nothing

POLL_S = 1.0
"""How often the store is asked for an outcome, in case that the message about it was lost."""
UNCERTAIN = (
    "the store did not answer in time, and the request may still take effect. Look at the conversation before you send "
    "it again; with an Idempotency-Key it can be sent again safely"
)
MAX_ATTEMPTS = 3
"""How often a command is brought to an owner that loses the conversation before the command is stored."""

_log = logging.getLogger("toolyard.commands")


class CommandDelivery:
    """Submits commands of this process, and decides those that other replicas forward to it."""

    def __init__(self, deps: Deps, store: Store, driver: Driver, requests: Requests) -> None:
        self._deps = deps
        self._store = store
        self._driver = driver
        self._requests = requests
        self._answered: dict[str, asyncio.Event] = {}
        """The commands that this process has forwarded and that wait for their outcome."""
        self._reading: set[str] = set()
        """The conversations whose forwarded commands are being read."""
        driver.on_forwarded = self.read_forwarded_soon

    async def submit(self, conversation: str, command: StateCommand) -> None:
        """Decide a command, here or at its conversation's owner, and return once its events are stored."""
        attempts = MAX_ATTEMPTS if self._store.is_shared else 1
        while True:
            try:
                await self._submit(conversation, command)
                return
            except Fenced:
                # Nothing of the command was stored, so that it may be decided again.
                attempts -= 1
                if not attempts:
                    raise

    async def _submit(self, conversation: str, command: StateCommand) -> None:
        settle = await self._requests.acquire(command)
        try:
            journal = await self._driver.open_journal(conversation)
            if isinstance(journal, OwnedElsewhere):
                await self._forward(conversation, command)
                settle()
                return
            await self._decide_or_refuse(journal, command)
        except BaseException:
            settle()
            raise
        await self._finish(journal, settle)

    async def _finish(self, journal: Journal, settle: Callable[[], None]) -> None:
        # Settled by the journal, not when this call ends: its caller may be cancelled while the entries are on their
        # way to the store.
        if settle is not release_nothing:
            journal.on_settled(settle)
        self._driver.wake(journal)
        if not self._store.is_shared:
            await journal.wait_committed()
            return
        try:
            async with asyncio.timeout(self._deps.command_s):
                await journal.wait_committed()
        except TimeoutError:
            raise Unavailable(UNCERTAIN) from None

    async def _decide_or_refuse(
        self, journal: Journal, command: StateCommand, forwarded: ForwardedCommand | None = None
    ) -> None:
        """Decide a command. Raise a refusal only once the entries behind it are stored: its caller may read them."""
        try:
            self._decide(journal, command, forwarded)
        except ToolyardError:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._deps.command_s):
                    await journal.wait_committed()
            raise

    def _decide(self, journal: Journal, command: StateCommand, forwarded: ForwardedCommand | None = None) -> None:
        """Decide a command on the state that it is applied to: there is no await in between."""
        # A process that stops may be about to release the conversation with the state as it was: an entry from now on
        # would not make it due again, and nobody would drive the run.
        if self._deps.draining:
            raise Unavailable(STOPPING)
        try:
            check_command(command, journal.state, self._deps)
            command = bind_tools(command, journal.state, self._deps)
            events = decide(journal.state, command, self._deps.clock.now())
            if journal.state.calls:
                events = price_started_calls(events, journal.state, self._deps.registry)
            answer = CommandAnswer(number=forwarded.number, outcome=encode_outcome(ACCEPTED)) if forwarded else None
            journal.emit(
                *events,
                run=command.run_id if isinstance(command, Start) else "",
                correlation_id=command.correlation_id,
                request=command.request,
                answer=answer,
            )
        except BaseException:
            if forwarded is None:
                self._driver.release_if_resting(journal)  # nothing is appended that would do it
            raise

    async def _forward(self, conversation: str, command: StateCommand) -> None:
        """Forward a command to the owner of the conversation and wait for its outcome. Raises the owner's error."""
        key = self._deps.clock.new_id("letter")
        self._answered[key] = asyncio.Event()
        try:
            owner = await self._store.forward_command(conversation, key, encode_command(command))
            if owner:
                self._store.tell(owner, encode_message(CommandForwarded(conversation)))
            outcome = await self._wait_for_outcome(conversation, key, has_owner=bool(owner))
        finally:
            del self._answered[key]
        if outcome is None:
            raise Unavailable(
                "the replica that owns this conversation did not answer in time. Nothing was done: send it again"
            )
        decode_outcome(outcome).raise_error()

    async def _wait_for_outcome(self, conversation: str, key: str, *, has_owner: bool) -> bytes | None:
        """Return the outcome of a forwarded command, or None if it was withdrawn because none came in time."""
        try:
            async with asyncio.timeout(self._deps.command_s):
                if has_owner:
                    await self._wait_for_answer(key)
                while (outcome := await self._store.read_outcome(conversation, key)) is None:
                    await self._decide_if_free(conversation)
                    await self._wait_for_answer(key)
                return outcome
        except (TimeoutError, StoreDown):
            return await self._withdraw(conversation, key)

    async def _decide_if_free(self, conversation: str) -> None:
        """Decide the forwarded commands here if their owner has died or let go."""
        try:
            journal = await self._driver.open_journal(conversation)
        except Unavailable:  # this process stops, or the conversation has to wait: another replica decides it
            return
        if isinstance(journal, Journal):
            await self._read_forwarded(conversation)

    async def _withdraw(self, conversation: str, key: str) -> bytes | None:
        try:
            return await self._store.withdraw(conversation, key)
        except StoreDown:
            raise Unavailable(UNCERTAIN) from None

    async def _wait_for_answer(self, key: str) -> None:
        try:
            async with asyncio.timeout(POLL_S):
                await self._answered[key].wait()
        except TimeoutError:
            pass
        self._answered[key].clear()

    def note_answer(self, key: str) -> None:
        """Look for the outcome of a forwarded command: its owner says that there is one."""
        if answered := self._answered.get(key):
            answered.set()

    def read_forwarded_soon(self, conversation: str) -> None:
        """Decide the forwarded commands that wait for a conversation of this process."""
        if conversation not in self._reading:
            self._driver.spawn(self._read_forwarded(conversation))

    async def _read_forwarded(self, conversation: str) -> None:
        # A process that stops leaves its forwarded commands to the replica that goes on with the conversation.
        if conversation in self._reading or self._deps.draining:
            return
        self._reading.add(conversation)
        try:
            journal = await self._driver.open_journal(conversation)
            while isinstance(journal, Journal):
                last, waiting = await self._store.read_forwarded(conversation, journal.epoch)
                for forwarded in waiting:
                    if forwarded.number > journal.forwarded_seen:
                        await self._decide_forwarded(journal, forwarded)
                current = await self._driver.open_journal(conversation)
                if current is journal and last <= journal.forwarded_seen:
                    break
                if current is journal:
                    journal.forwarded_seen = last
                journal = current
            if isinstance(journal, Journal):
                self._driver.wake(journal)
        except ToolyardError as error:  # the commands stay: the next regular check finds them again
            _log.warning("the forwarded commands of conversation %s could not be read: %s", conversation, error)
        finally:
            self._reading.discard(conversation)

    async def _decide_forwarded(self, read_for: Journal, forwarded: ForwardedCommand) -> None:
        """Decide a forwarded command, unless `read_for` is no longer the journal of its conversation."""
        conversation = read_for.conversation
        try:
            command = _read_command(forwarded)
            settle = await self._requests.acquire(command)
        except ToolyardError as error:
            await self._refuse(conversation, forwarded, error)
            return
        try:
            journal = await self._driver.open_journal(conversation)
            if journal is not read_for or forwarded.number <= read_for.forwarded_seen:
                settle()
                return
            await self._decide_or_refuse(read_for, command, forwarded)
            read_for.forwarded_seen = forwarded.number
        except ToolyardError as error:
            settle()
            await self._refuse(conversation, forwarded, error)
            return
        except BaseException:
            settle()
            raise
        read_for.on_settled(lambda: self._announce_answer(forwarded, read_for))
        await self._finish(read_for, settle)

    async def _refuse(self, conversation: str, forwarded: ForwardedCommand, error: ToolyardError) -> None:
        journal = await self._driver.open_journal(conversation)
        if isinstance(journal, Journal):
            answer = CommandAnswer(number=forwarded.number, outcome=encode_outcome(describe_error(error)))
            await self._store.answer_forwarded(conversation, journal.epoch, answer)
            journal.forwarded_seen = max(journal.forwarded_seen, forwarded.number)
            self._announce_answer(forwarded, journal)

    def _announce_answer(self, forwarded: ForwardedCommand, journal: Journal) -> None:
        if journal.broken:  # it may not have been stored
            return
        if forwarded.key in self._answered:
            self.note_answer(forwarded.key)
        else:
            self._store.tell(forwarded.sender, encode_message(CommandAnswered(forwarded.key)))


def _read_command(forwarded: ForwardedCommand) -> StateCommand:
    """Return the command. Raises Unavailable for one that only a newer version knows."""
    try:
        command = decode_command(forwarded.body)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"the owner of this conversation cannot read the command: {error}") from None
    if isinstance(command, Delete):
        raise Invalid("a conversation is deleted without its owner")
    return command
