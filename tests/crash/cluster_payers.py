"""The clients of the cluster storm: they open conversations, let them pay and approve, at whatever replica answers."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import aiohttp

from crash.cluster_check import Expected, Violation
from crash.cluster_child import list_amounts

Json = Any
ATTEMPT_S = 10.0
"""How long one request may take. A replica that is stopped does not answer; another one is asked then."""
RETRY_S = 0.2
TRY_AGAIN = frozenset({429, 503})
RUN_FAILED = 502
MAX_THINK_S = 0.6
"""A person takes some time to approve: the run waits without an owner meanwhile."""


class Payers:
    """Sends requests to replicas chosen at random, and again to others until one answers."""

    def __init__(self, urls: Sequence[str], session: aiohttp.ClientSession, max_s: float) -> None:
        self._urls = urls
        self._session = session
        self._max_s = max_s
        self.expected: list[Expected] = []
        self.violations: list[Violation] = []
        self.open_count = 0

    async def pay(self, number: int) -> None:
        """Open a conversation and let it pay its amounts."""
        self.open_count += 1
        try:
            async with asyncio.timeout(self._max_s):
                await self._pay(number)
        except TimeoutError:
            self.violations.append(Violation("unfinished", f"payer {number} had no answer after {self._max_s:g} s"))
        finally:
            self.open_count -= 1

    async def _pay(self, number: int) -> None:
        status, created = await self._send("/conversations", {"title": f"payer {number}"}, f"open-{number}")
        if status != 201:
            self._report(number, status, created)
            return
        conversation = str(created["conversation"]["id"])
        self.expected.append(Expected(conversation, tuple(list_amounts(number))))
        while True:
            # Sent again and again with the same key: it starts one run, and later ones wait for that run.
            body, key = {"content": f"pay {number}"}, f"pay-{number}"
            status, answer = await self._send(f"/conversations/{conversation}/chat", body, key)
            if status in (200, RUN_FAILED):
                return
            if status != 202:
                self._report(number, status, answer)
                return
            for waiting in answer["waiting"]:
                await asyncio.sleep(random.uniform(0, MAX_THINK_S))
                await self._approve(number, conversation, waiting["call_id"])

    async def _approve(self, number: int, conversation: str, call_id: str) -> None:
        status, answer = await self._send(f"/conversations/{conversation}/calls/{call_id}/approve", {})
        # 409 means that an earlier attempt, whose answer was lost, approved it.
        if status not in (200, 409):
            self._report(number, status, answer)

    async def check_usable(self, conversation: str) -> None:
        """Send one more message, which must be answered."""
        try:
            async with asyncio.timeout(self._max_s):
                body, key = {"content": "still there?"}, f"after-{conversation}"
                status, answer = await self._send(f"/conversations/{conversation}/chat", body, key)
        except TimeoutError:
            status, answer = 0, dict[str, Any]()
        if status != 200 or answer["assistant_message"]["content"] != "yes":
            self.violations.append(Violation("unusable", f"{conversation} answered {status} {answer}"))

    def _report(self, number: int, status: int, answer: Json) -> None:
        self.violations.append(Violation("unusable", f"payer {number} got {status} {answer}"))

    async def _send(self, path: str, body: Json, key: str = "") -> tuple[int, Json]:
        headers = {"idempotency-key": key} if key else {}
        while True:
            url = random.choice(self._urls)
            try:
                async with self._session.post(
                    url + path, json=body, headers=headers, timeout=aiohttp.ClientTimeout(ATTEMPT_S)
                ) as response:
                    answer = await response.json()
                    if response.status not in TRY_AGAIN:
                        return response.status, answer
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(RETRY_S * random.uniform(0.5, 1.5))
