"""Hears the other replicas: carries out their messages, and looks in the store for what a lost one was about."""

import asyncio
import logging
from typing import assert_never

import msgspec

from toolyard.core.errors import NotFound, ToolyardError
from toolyard.core.store import Store
from toolyard.engine.log.replica_messages import (
    CommandAnswered,
    CommandForwarded,
    DeletionNotice,
    FollowerJoined,
    LiveEvents,
    LogGrew,
    Message,
    decode_message,
)
from toolyard.engine.replicas.command_delivery import CommandDelivery
from toolyard.engine.replicas.ownership import Driver

FORWARDED_CHECK_S = 1.0
CHECKS_PER_HEADS = 2
"""The ends of the followed logs are compared every second time."""

_log = logging.getLogger("toolyard.replicas")


class Replicas:
    """Carries out the messages of other replicas, and checks for what they were about every second."""

    def __init__(self, store: Store, driver: Driver, delivery: CommandDelivery) -> None:
        self._store = store
        self._driver = driver
        self._delivery = delivery
        self._checking = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        if self._store.is_shared:
            self._store.listen(self._receive)
            self._watching = tasks.create_task(self._watch())

    def close(self) -> None:
        if self._watching:
            self._watching.cancel()

    def _receive(self, body: bytes) -> None:
        if not body:
            self._checking.set()
            return
        try:
            message = decode_message(body)
        except msgspec.MsgspecError as error:  # a newer replica may know more messages
            _log.info("a message of another replica is not known here: %s", error)
            return
        self._carry_out(message)

    def _carry_out(self, message: Message) -> None:
        match message:
            case LogGrew() | LiveEvents():
                self._tell_tail(message)
            case FollowerJoined(conversation, replica):
                self._driver.add_follower(conversation, replica)
            case CommandForwarded(conversation):
                self._delivery.read_forwarded_soon(conversation)
            case CommandAnswered(key):
                self._delivery.note_answer(key)
            case DeletionNotice(conversation):
                self._driver.spawn(self._driver.forget(conversation, NotFound("the conversation was deleted")))
            case _:
                assert_never(message)

    def _tell_tail(self, message: LogGrew | LiveEvents) -> None:
        if (tail := self._driver.views.tails.get(message.conversation)) is None:
            return
        if isinstance(message, LogGrew):
            tail.wake()
        else:
            tail.receive(message)

    async def _watch(self) -> None:
        number = 0
        while True:
            try:
                async with asyncio.timeout(FORWARDED_CHECK_S):
                    await self._checking.wait()
            except TimeoutError:
                pass
            self._checking.clear()
            number += 1
            try:
                await self._check_forwarded()
                if number % CHECKS_PER_HEADS == 0:
                    await self._compare_heads()
            except ToolyardError as error:
                _log.debug("the other replicas could not be heard: %s", error)

    async def _check_forwarded(self) -> None:
        for conversation in await self._store.find_forwarded():
            self._delivery.read_forwarded_soon(conversation)

    async def _compare_heads(self) -> None:
        tails = dict(self._driver.views.tails)
        if tails:
            heads = await self._store.read_heads(list(tails))
            for conversation, tail in tails.items():
                tail.compare(heads.get(conversation))
