"""A provider that refuses what is not in order, answers by script, and keeps what it was sent. It knows no dialect."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from wire.local import serving

STREAM = {"Content-Type": "text/event-stream"}


@dataclass(kw_only=True)
class Reply:
    """One scripted answer: packets of a body, each written on its own."""

    packets: Sequence[bytes]
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: dict(STREAM))


def refuses(status: int, message: str, **headers: str) -> Reply:
    """An error as most providers wrap it."""
    body = json.dumps({"error": {"message": message, "type": "scripted", "code": None}}).encode()
    http_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(packets=[body], status=status, headers={"Content-Type": "application/json", **http_headers})


class StrictServer:
    """Serves the replies in order at one path; a request that is refused uses none up."""

    def __init__(
        self,
        path: str,
        faults_of: Callable[[bytes], list[str]],
        *replies: Reply,
        refuse: Callable[[int, str], Reply] = refuses,
    ) -> None:
        self._path = path
        self._faults_of = faults_of
        self._refuse = refuse
        self.replies = list(replies)
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.refusals: list[list[str]] = []

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str, None]:
        """Gives the base URL."""
        async with serving(self._answer, self._path) as base_url:
            yield base_url

    async def _answer(self, received: web.Request) -> web.StreamResponse:
        body = await received.read()
        self.bodies.append(body)
        self.paths.append(received.path_qs)
        self.headers.append(dict(received.headers))
        faults = self._faults_of(body)
        if not faults and not self.replies:
            faults = ["the script has no reply for this request"]
        if faults:
            self.refusals.append(faults)
            return await _send(received, self._refuse(400, "; ".join(faults)))
        return await _send(received, self.replies.pop(0))


async def _send(received: web.Request, reply: Reply) -> web.StreamResponse:
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    await response.prepare(received)
    for packet in reply.packets:
        await response.write(packet)
    await response.write_eof()
    return response
