"""What clients are told unasked: that a list is another now, that a resource they watch has changed.

A feed holds each piece of news once, however often it came before it could be told: that is its bound.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import cast

from toolyard.core.caller import Caller
from toolyard.engine.service import Service
from toolyard.surfaces.mcp.client import LEVELS, Standing
from toolyard.surfaces.mcp.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Json, RpcError

HEARTBEAT_S = 15.0
MOST_WATCHED = 1000
"""Resources that one client may watch."""
MOST_FEEDS_OF_ONE = 64
LISTS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
UPDATED = "notifications/resources/updated"
LOGGED = "notifications/message"
MOST_WAITING = 2000
"""Pieces of news that wait to be told."""


class Feed:
    """News for one client, of the kinds that it wants."""

    def __init__(self, caller: Caller, lists: frozenset[str], standing: Standing) -> None:
        self.caller = caller
        self.lists = lists
        self.standing = standing
        self._news: dict[tuple[str, str], Json] = {}
        self._lines = 0
        self._there = asyncio.Event()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many pieces of news have not been told yet."""
        return len(self._news)

    def tell(self, method: str, params: Json) -> None:
        uri = str(params.get("uri", ""))
        if (LISTS.get(method) in self.lists) if method in LISTS else (uri in self.standing.watched):
            self._news[method, uri] = params
            self._there.set()

    def log(self, params: Json) -> None:
        """A line of a server's log; of very many that wait, the rest is left out."""
        level = params.get("level")
        serious = level in LEVELS and LEVELS.index(level) >= LEVELS.index(self.standing.log_level)
        if serious and self.waiting < MOST_WAITING:
            self._lines += 1
            self._news[LOGGED, str(self._lines)] = params
            self._there.set()

    def close(self) -> None:
        self._closed = True
        self._there.set()

    async def news(self) -> AsyncGenerator[tuple[str, Json] | None, None]:
        """Each method with its parameters, as they come; None now and then where nothing happens."""
        while not self._closed:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._there.wait()
            except TimeoutError:
                yield None
            self._there.clear()
            news, self._news = self._news, {}
            for (method, _), params in news.items():
                yield method, params


class Notices:
    """All feeds, and where their news comes from."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._feeds: set[Feed] = set()
        self._endings: list[Callable[[], None]] = []

    def open(self, caller: Caller, lists: frozenset[str], standing: Standing) -> Feed:
        """A new feed of these lists, and of what the client watches; `close` it when the client has gone."""
        if sum(feed.caller.owns(caller) for feed in self._feeds) >= MOST_FEEDS_OF_ONE:
            raise RpcError(INVALID_REQUEST, f"{MOST_FEEDS_OF_ONE} streams of yours are open already; close one")
        if not self._feeds:
            listening = self._service.beside.listen(self._heard), self._service.on_tools_changed(self._tools_changed)
            self._endings.extend(listening)
        feed = Feed(caller, lists, standing)
        self._feeds.add(feed)
        return feed

    def close(self, feed: Feed) -> None:
        feed.close()
        self._feeds.discard(feed)
        if not self._feeds:
            for end in self._endings:
                end()
            self._endings.clear()

    def watches(self, uri: str) -> bool:
        return any(uri in feed.standing.watched for feed in self._feeds)

    def _tools_changed(self) -> None:
        for feed in self._feeds:
            feed.tell("notifications/tools/list_changed", {})

    def _heard(self, server: str, method: str, params: Json, caller: Caller | None) -> None:
        """Of all's tools our own list counts; of the rest, what the servers say. A log line goes to whose call it is.

        What a caller's own session says is for that caller alone.
        """
        feeds = [feed for feed in self._feeds if caller is None or feed.caller.owns(caller)]
        if method == LOGGED:
            call_id = self._service.only_call(server)
            for feed in feeds:
                if call_id in feed.standing.calls:
                    feed.log(params)
        elif method == UPDATED:
            for feed in feeds:
                if server in self._service.servers(feed.caller, "resources"):
                    feed.tell(method, params)
        elif method in LISTS and (caller is not None or not method.startswith("notifications/tools/")):
            capability = method.split("/")[1]
            for feed in feeds:
                if caller is not None or server in self._service.beside.offering(capability, feed.caller):
                    feed.tell(method, {})


def wanted(params: Json) -> tuple[frozenset[str], list[str]]:
    """What a modern client asks to be told: the lists, and the resources."""
    asked = params.get("notifications")
    if not isinstance(asked, dict):
        raise RpcError(INVALID_PARAMS, "params.notifications must be an object", {"field": "notifications"})
    told = cast(Json, asked)
    given = told.get("resourceSubscriptions")
    uris = cast(list[object], given) if isinstance(given, list) else []
    if len(uris) > MOST_WATCHED:
        raise RpcError(INVALID_PARAMS, f"{MOST_WATCHED} resources may be watched at most", {"field": "notifications"})
    lists = frozenset(name for name in LISTS.values() if told.get(name) is True)
    return lists, [uri for uri in uris if isinstance(uri, str)]
