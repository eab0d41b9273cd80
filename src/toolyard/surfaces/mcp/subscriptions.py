"""`subscriptions/listen`: a modern client is told of changes for as long as it stays."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from toolyard.surfaces.mcp.client import OWN, Peer, Standing
from toolyard.surfaces.mcp.jsonrpc import Json, Request, notification
from toolyard.surfaces.mcp.notifications import Feed, Notices, wanted
from toolyard.surfaces.mcp.passthrough import Aside


class Listening:
    def __init__(self, notices: Notices, aside: Aside, asked: Request, peer: Peer) -> None:
        self._notices = notices
        self._aside = aside
        self._peer = peer
        self._named: Json = {f"{OWN}subscriptionId": asked.id}
        self._lists, self._uris = wanted(asked.params)
        self._feed: Feed | None = None

    async def cancel(self) -> None:
        if self._feed is not None:
            self._feed.close()

    async def messages(self) -> AsyncGenerator[Json | None, None]:
        """First what was agreed to, then the news; None now and then where nothing happens."""
        standing = Standing()
        watched = standing.watched
        self._feed = feed = self._notices.open(self._peer.caller, self._lists, standing)
        try:
            await self._aside.watch_all(self._uris, self._peer, watched)
            agreed: Json = dict.fromkeys(self._lists, True)
            if watched:
                agreed["resourceSubscriptions"] = sorted(watched)
            yield self._told("notifications/subscriptions/acknowledged", {"notifications": agreed})
            async with aclosing(feed.news()) as news:
                async for one in news:
                    yield None if one is None else self._told(*one)
        finally:
            self._notices.close(feed)

    def _told(self, method: str, params: Json) -> Json:
        return notification(method, {**params, "_meta": self._named})
