"""Resources, prompts and completions of the servers behind us, as those of one server; what they answer passes whole.

A list is all their lists, one after the other; a server that does not answer is left out of it. What is read is asked
of the server that listed it. A caller sees the servers that have a tool for that caller, or none at all.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import cast

import anyio

from toolyard.core.caller import Caller
from toolyard.core.errors import Declined, ToolyardError, Unavailable
from toolyard.engine.service import Service
from toolyard.surfaces.mcp.client import OWN, Peer
from toolyard.surfaces.mcp.jsonrpc import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    Json,
    Request,
    RpcError,
    object_of,
    text_of,
)

LIST_S = 10.0
MOST_AT_ONCE = 32
ASK_S = 60.0
MOST_PAGES = 100
MOST_LISTED = 10_000
MOST_OWNERS = 20_000
NOT_PASSED = (f"{OWN}protocolVersion", f"{OWN}clientInfo", f"{OWN}clientCapabilities", "progressToken")
LISTS = {
    "resources/list": ("resources", "resources", "uri"),
    "resources/templates/list": ("resources", "resourceTemplates", "uriTemplate"),
    "prompts/list": ("prompts", "prompts", "name"),
}
"""For each list: the capability, the field of the answer, and what its items are known by."""
_log = logging.getLogger("toolyard.mcp")


class Aside:
    """The servers behind us, for whatever is no tool."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._owners: dict[tuple[Caller, str, str], str] = {}
        """Which server listed it last to a caller, by kind and name. Forgotten now and then: a list brings it back."""

    async def listed(self, asked: Request, peer: Peer) -> Json:
        capability, field, key = LISTS[asked.method]
        found: list[Json] = []
        servers = self._service.servers(peer.caller, capability)
        for server, items in zip(servers, await self._lists(asked.method, field, servers, peer), strict=True):
            found += self._named(peer.caller, server, items, key, {str(one.get(key)) for one in found})
        return {field: found[:MOST_LISTED]}

    async def read(self, asked: Request, peer: Peer) -> Json:
        """A resource: of the server that listed it, or of the first that knows it, whatever becomes of the others."""
        uri = text_of(asked.params, "uri")
        servers = self._service.servers(peer.caller, "resources")
        owner = self._owners.get((peer.caller, "uri", uri))
        known, others = [one for one in servers if one == owner], [one for one in servers if one != owner]
        failures: list[RpcError | ToolyardError] = []
        for some in (known, others):
            if (found := await self._first(some, asked, peer, failures)) is not None:
                return found
        unknown = RpcError(INVALID_PARAMS if peer.modern else RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})
        said = failures[:1] if known else [one for one in failures if isinstance(one, RpcError)]
        raise next(iter([*said, *failures]), unknown)

    async def _first(
        self, servers: Sequence[str], asked: Request, peer: Peer, failures: list[RpcError | ToolyardError]
    ) -> Json | None:
        """The first answer of these servers, which are asked all at once; what the others say against it is noted."""
        found: list[Json] = []

        async def one(server: str) -> None:
            try:
                found.append(await self._ask(server, asked, peer))
                group.cancel_scope.cancel()
            except (RpcError, ToolyardError) as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            for server in servers:
                group.start_soon(one, server)
        return found[0] if found else None

    async def prompt(self, asked: Request, peer: Peer) -> Json:
        server, name = await self._owner("prompts/list", text_of(asked.params, "name"), peer)
        return await self._ask(server, asked, peer, name=name)

    async def completed(self, asked: Request, peer: Peer) -> Json:
        ref = object_of(asked.params, "ref")
        if ref.get("type") == "ref/prompt":
            server, name = await self._owner("prompts/list", text_of(ref, "name"), peer)
            return await self._ask(server, asked, peer, ref={**ref, "name": name})
        server, _ = await self._owner("resources/templates/list", text_of(ref, "uri"), peer)
        return await self._ask(server, asked, peer)

    async def watch_all(self, uris: Iterable[str], peer: Peer, watched: set[str]) -> None:
        """Have all of them told of that can be, asked for at once; what cannot, or takes too long, is left out.

        They are listed first: a server that does not do so in its time takes none of the time of the others.
        """
        uris, few = tuple(uris), asyncio.Semaphore(MOST_AT_ONCE)
        if not all(self._known("resources/list", uri, peer) for uri in uris):
            await self.listed(Request(id=0, method="resources/list"), peer)

        async def one(uri: str) -> None:
            known = self._known("resources/list", uri, peer)
            if known is None:
                return
            async with few:
                watched.add(uri)  # before: what is told at once is not missed
                try:
                    await self._subscribe(known[0], uri, peer)
                except BaseException as error:
                    watched.discard(uri)
                    if not isinstance(error, RpcError | ToolyardError):
                        raise

        with anyio.move_on_after(LIST_S):
            async with anyio.create_task_group() as group:
                for uri in uris:
                    group.start_soon(one, uri)

    async def watch(self, uri: str, peer: Peer) -> None:
        """Have the server that has this resource tell of its changes. Raises RpcError if none has it, or it cannot."""
        server, _ = await self._owner("resources/list", uri, peer)
        await self._subscribe(server, uri, peer)

    async def _subscribe(self, server: str, uri: str, peer: Peer) -> None:
        await self._ask(server, Request(id=0, method="resources/subscribe", params={"uri": uri}), peer)

    async def unwatch(self, uri: str, peer: Peer) -> None:
        server, _ = await self._owner("resources/list", uri, peer)
        await self._ask(server, Request(id=0, method="resources/unsubscribe", params={"uri": uri}), peer)

    def has(self, capability: str, caller: Caller) -> bool:
        return bool(self._service.beside.offering(capability, caller))

    async def _owner(self, method: str, name: str, peer: Peer) -> tuple[str, str]:
        """The server that lists this, and the name there. A list is asked for if nobody has asked yet."""
        known = self._known(method, name, peer)
        if known is None:
            await self.listed(Request(id=0, method=method), peer)
            known = self._known(method, name, peer)
        if known is None:
            raise RpcError(INVALID_PARAMS, f"there is no {LISTS[method][0].rstrip('s')} {name[:80]!r} here")
        return known

    def _known(self, method: str, name: str, peer: Peer) -> tuple[str, str] | None:
        capability, _, key = LISTS[method]
        server = self._owners.get((peer.caller, key, name))
        if server is None or server not in self._service.servers(peer.caller, capability):
            return None
        return server, name.removeprefix(f"{server}__") if key == "name" else name

    async def _lists(self, method: str, field: str, servers: Sequence[str], peer: Peer) -> list[list[Json]]:
        return list(await asyncio.gather(*(self._list(method, field, server, peer) for server in servers)))

    async def _list(self, method: str, field: str, server: str, peer: Peer) -> list[Json]:
        """All pages of one server's list; nothing, and a line in the log, where it does not answer."""
        items: list[Json] = []
        params: Json = {}
        try:
            async with asyncio.timeout(LIST_S):
                for _ in range(MOST_PAGES):
                    page = await self._service.beside.ask(server, peer.caller, method, params, peer.client)
                    items += _objects(page.get(field))
                    if not isinstance(page.get("nextCursor"), str) or len(items) > MOST_LISTED:
                        break
                    params = {"cursor": page["nextCursor"]}
        except (ToolyardError, TimeoutError) as error:
            _log.warning("server %s does not list its %s: %s", server, field, error or type(error).__name__)
        return items

    def _named(self, caller: Caller, server: str, items: Iterable[Json], key: str, taken: set[str]) -> list[Json]:
        """A prompt whose name another server's has already gets its server's before it; an address is an address."""
        shown: list[Json] = []
        for one in items:
            name = str(one.get(key))
            if name in taken:
                if key != "name":
                    continue
                name, one = f"{server}__{name}", {**one, "name": f"{server}__{name}"}
            if len(self._owners) >= MOST_OWNERS:
                self._owners.clear()
            self._owners[caller, key, name] = server
            shown.append(one)
        return shown

    async def _ask(self, server: str, asked: Request, peer: Peer, **changed: object) -> Json:
        params = {**asked.params, **changed}
        meta = {name: value for name, value in object_of(params, "_meta").items() if name not in NOT_PASSED}
        params.pop("_meta", None)
        try:
            async with asyncio.timeout(ASK_S):
                given: Json = {"_meta": meta} if meta else {}
                sent = {**params, **given}
                return await self._service.beside.ask(server, peer.caller, asked.method, sent, peer.client)
        except Declined as error:
            code = INVALID_PARAMS if peer.modern and error.code == RESOURCE_NOT_FOUND else error.code
            raise RpcError(code, str(error), error.data) from None
        except TimeoutError:
            raise Unavailable(f"the server {server!r} did not answer within {ASK_S:g} s") from None


def _objects(value: object) -> list[Json]:
    return (
        [cast(Json, one) for one in cast(list[object], value) if isinstance(one, dict)]
        if isinstance(value, list)
        else []
    )
