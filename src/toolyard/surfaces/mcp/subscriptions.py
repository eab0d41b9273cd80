"""`subscriptions/listen`: stream notifications to a modern client for as long as it stays connected."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from toolyard.core.json_types import Json
from toolyard.surfaces.mcp.client import META_PREFIX, ClientState, Peer
from toolyard.surfaces.mcp.jsonrpc import RpcRequest, build_notification
from toolyard.surfaces.mcp.notifications import NotificationFeed, NotificationFeeds, parse_subscription
from toolyard.surfaces.mcp.passthrough import McpPassthrough


class SubscriptionHandler:
    """Handles one `subscriptions/listen` request."""

    def __init__(self, feeds: NotificationFeeds, passthrough: McpPassthrough, request: RpcRequest, peer: Peer) -> None:
        self._feeds = feeds
        self._passthrough = passthrough
        self._peer = peer
        self._meta: Json = {f"{META_PREFIX}subscriptionId": request.id}
        self._lists, self._uris = parse_subscription(request.params)
        self._feed: NotificationFeed | None = None

    async def cancel(self) -> None:
        if self._feed is not None:
            self._feed.close()

    async def stream_messages(self) -> AsyncGenerator[Json | None, None]:
        """Yield the acknowledgement, then notifications; None for a heartbeat where nothing happens."""
        client_state = ClientState()
        watched = client_state.watched_uris
        self._feed = feed = self._feeds.open(self._peer.caller, self._lists, client_state)
        try:
            # The feed is open already, so that an update that follows a subscription at once is not missed.
            await self._passthrough.watch_all(self._uris, self._peer, watched)
            acknowledged: Json = dict.fromkeys(self._lists, True)
            if watched:
                acknowledged["resourceSubscriptions"] = sorted(watched)
            yield self._build_notification("notifications/subscriptions/acknowledged", {"notifications": acknowledged})
            async with aclosing(feed.iter_notifications()) as notifications:
                async for notification in notifications:
                    yield None if notification is None else self._build_notification(*notification)
        finally:
            self._feeds.close(feed)

    def _build_notification(self, method: str, params: Json) -> Json:
        return build_notification(method, {**params, "_meta": self._meta})
