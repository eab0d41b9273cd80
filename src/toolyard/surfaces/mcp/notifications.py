"""Notifications for clients: a list has changed, a watched resource has changed, a server has logged a line.

A feed holds each notification once, however often it is pushed before it is sent. That bounds a feed that is read
slowly: by the lists and resources that its client watches, and for log lines by `MAX_WAITING`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable

from toolyard.core.caller import Caller
from toolyard.core.json_types import Json, is_list, is_object
from toolyard.engine.service import Service
from toolyard.surfaces.mcp.client import LOG_LEVELS, ClientState
from toolyard.surfaces.mcp.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, RpcError

HEARTBEAT_S = 15.0
MAX_WATCHED = 1000
"""How many resources one client may watch."""
MAX_FEEDS_PER_CALLER = 64
LIST_NOTIFICATIONS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
RESOURCE_UPDATED = "notifications/resources/updated"
LOG_MESSAGE = "notifications/message"
MAX_WAITING = 2000
"""How many notifications may wait in a feed before log lines are dropped."""


class NotificationFeed:
    """The pending notifications of one client, of the kinds that it wants."""

    def __init__(self, caller: Caller, lists: frozenset[str], client_state: ClientState) -> None:
        self.caller = caller
        self.lists = lists
        self.client_state = client_state
        self._pending: dict[tuple[str, str], Json] = {}
        self._log_count = 0
        self._available = asyncio.Event()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many notifications have not been sent yet."""
        return len(self._pending)

    def push(self, method: str, params: Json) -> None:
        """Add a notification if the client wants it."""
        uri = str(params.get("uri", ""))
        if (
            (LIST_NOTIFICATIONS.get(method) in self.lists)
            if method in LIST_NOTIFICATIONS
            else (uri in self.client_state.watched_uris)
        ):
            self._pending[method, uri] = params
            self._available.set()

    def push_log(self, params: Json) -> None:
        """Add a server's log line if its level is high enough; drop it while `MAX_WAITING` notifications wait."""
        level = params.get("level")
        serious = level in LOG_LEVELS and LOG_LEVELS.index(level) >= LOG_LEVELS.index(self.client_state.log_level)
        if serious and self.waiting < MAX_WAITING:
            self._log_count += 1
            self._pending[LOG_MESSAGE, str(self._log_count)] = params
            self._available.set()

    def close(self) -> None:
        self._closed = True
        self._available.set()

    async def iter_notifications(self) -> AsyncGenerator[tuple[str, Json] | None, None]:
        """Yield each method with its parameters; None for a heartbeat where nothing happens."""
        while not self._closed:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._available.wait()
            except TimeoutError:
                yield None
            # Cleared together with the swap: what is pushed while the notifications below are sent sets it again.
            self._available.clear()
            pending, self._pending = self._pending, {}
            for (method, _), params in pending.items():
                yield method, params


class NotificationFeeds:
    """The open feeds. It subscribes to the sources of notifications while there is at least one feed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._feeds: set[NotificationFeed] = set()
        self._unsubscribers: list[Callable[[], None]] = []

    def open(self, caller: Caller, lists: frozenset[str], client_state: ClientState) -> NotificationFeed:
        """Open a feed of these lists and of the resources that the client watches; call `close` with it afterwards."""
        if sum(feed.caller.owns(caller) for feed in self._feeds) >= MAX_FEEDS_PER_CALLER:
            raise RpcError(INVALID_REQUEST, f"{MAX_FEEDS_PER_CALLER} streams of yours are open already; close one")
        if not self._feeds:
            listening = (
                self._service.mcp_proxy.subscribe(self._on_notification),
                self._service.tools.on_changed(self._on_tools_changed),
            )
            self._unsubscribers.extend(listening)
        feed = NotificationFeed(caller, lists, client_state)
        self._feeds.add(feed)
        return feed

    def close(self, feed: NotificationFeed) -> None:
        feed.close()
        self._feeds.discard(feed)
        if not self._feeds:
            for end in self._unsubscribers:
                end()
            self._unsubscribers.clear()

    def is_watched(self, uri: str) -> bool:
        return any(uri in feed.client_state.watched_uris for feed in self._feeds)

    def _on_tools_changed(self) -> None:
        for feed in self._feeds:
            feed.push("notifications/tools/list_changed", {})

    def _on_notification(self, server: str, method: str, params: Json, caller: Caller | None) -> None:
        """Pass a notification of an MCP server on to the feeds that it concerns.

        `caller` is set if it came from the session of one caller, and is then for that caller's feeds only. A change of
        the shared tools is not passed on: `_on_tools_changed` reports it, once this server's own list has changed. MCP
        does not say which call a log line belongs to, so it is passed on only while one single call runs on the server.
        """
        feeds = [feed for feed in self._feeds if caller is None or feed.caller.owns(caller)]
        if method == LOG_MESSAGE:
            call_id = self._service.tools.find_only_call(server)
            for feed in feeds:
                if call_id in feed.client_state.open_calls:
                    feed.push_log(params)
        elif method == RESOURCE_UPDATED:
            for feed in feeds:
                if server in self._service.tools.find_servers(feed.caller, "resources"):
                    feed.push(method, params)
        elif method in LIST_NOTIFICATIONS and (caller is not None or not method.startswith("notifications/tools/")):
            capability = method.split("/")[1]
            for feed in feeds:
                if caller is not None or server in self._service.mcp_proxy.find_servers(capability, feed.caller):
                    feed.push(method, {})


def parse_subscription(params: Json) -> tuple[frozenset[str], list[str]]:
    """Return the lists and the resource URIs that a modern client subscribes to."""
    notifications = params.get("notifications")
    if not is_object(notifications):
        raise RpcError(INVALID_PARAMS, "params.notifications must be an object", {"field": "notifications"})
    requested = notifications
    subscriptions = requested.get("resourceSubscriptions")
    uris = subscriptions if is_list(subscriptions) else []
    if len(uris) > MAX_WATCHED:
        raise RpcError(INVALID_PARAMS, f"{MAX_WATCHED} resources may be watched at most", {"field": "notifications"})
    lists = frozenset(name for name in LIST_NOTIFICATIONS.values() if requested.get(name) is True)
    return lists, [uri for uri in uris if isinstance(uri, str)]
