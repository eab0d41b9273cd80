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
from toolyard.surfaces.mcp.client import META_PREFIX, Peer
from toolyard.surfaces.mcp.jsonrpc import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    Json,
    RpcError,
    RpcRequest,
    read_object,
    require_text,
)

LIST_TIMEOUT_S = 10.0
MAX_CONCURRENT = 32
REQUEST_TIMEOUT_S = 60.0
MAX_PAGES = 100
MAX_LISTED = 10_000
MAX_OWNERS = 20_000
STRIPPED_META = (
    f"{META_PREFIX}protocolVersion",
    f"{META_PREFIX}clientInfo",
    f"{META_PREFIX}clientCapabilities",
    "progressToken",
)
LIST_METHODS = {
    "resources/list": ("resources", "resources", "uri"),
    "resources/templates/list": ("resources", "resourceTemplates", "uriTemplate"),
    "prompts/list": ("prompts", "prompts", "name"),
}
"""For each list: the capability, the field of the answer, and what its items are known by."""
_log = logging.getLogger("toolyard.mcp")


class McpPassthrough:
    """The servers behind us, for whatever is no tool."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._owners: dict[tuple[Caller, str, str], str] = {}
        """Which server listed it last to a caller, by kind and name. Forgotten now and then: a list brings it back."""

    async def list_items(self, request: RpcRequest, peer: Peer) -> Json:
        capability, field, key = LIST_METHODS[request.method]
        found: list[Json] = []
        servers = self._service.find_servers(peer.caller, capability)
        for server, items in zip(servers, await self._list_all(request.method, field, servers, peer), strict=True):
            found += self._register_items(peer.caller, server, items, key, {str(one.get(key)) for one in found})
        return {field: found[:MAX_LISTED]}

    async def read_resource(self, request: RpcRequest, peer: Peer) -> Json:
        """A resource: of the server that listed it, or of the first that knows it, whatever becomes of the others."""
        uri = require_text(request.params, "uri")
        servers = self._service.find_servers(peer.caller, "resources")
        owner = self._owners.get((peer.caller, "uri", uri))
        known, others = [one for one in servers if one == owner], [one for one in servers if one != owner]
        failures: list[RpcError | ToolyardError] = []
        for some in (known, others):
            if (found := await self._ask_first(some, request, peer, failures)) is not None:
                return found
        unknown = RpcError(INVALID_PARAMS if peer.modern else RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})
        said = failures[:1] if known else [one for one in failures if isinstance(one, RpcError)]
        raise next(iter([*said, *failures]), unknown)

    async def _ask_first(
        self, servers: Sequence[str], request: RpcRequest, peer: Peer, failures: list[RpcError | ToolyardError]
    ) -> Json | None:
        """The first answer of these servers, which are asked all at once; what the others say against it is noted."""
        found: list[Json] = []

        async def ask_server(server: str) -> None:
            try:
                found.append(await self._ask(server, request, peer))
                group.cancel_scope.cancel()
            except (RpcError, ToolyardError) as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            for server in servers:
                group.start_soon(ask_server, server)
        return found[0] if found else None

    async def get_prompt(self, request: RpcRequest, peer: Peer) -> Json:
        server, name = await self._find_owner("prompts/list", require_text(request.params, "name"), peer)
        return await self._ask(server, request, peer, name=name)

    async def complete(self, request: RpcRequest, peer: Peer) -> Json:
        ref = read_object(request.params, "ref")
        if ref.get("type") == "ref/prompt":
            server, name = await self._find_owner("prompts/list", require_text(ref, "name"), peer)
            return await self._ask(server, request, peer, ref={**ref, "name": name})
        server, _ = await self._find_owner("resources/templates/list", require_text(ref, "uri"), peer)
        return await self._ask(server, request, peer)

    async def watch_all(self, uris: Iterable[str], peer: Peer, watched: set[str]) -> None:
        """Have all of them told of that can be, asked for at once; what cannot, or takes too long, is left out.

        They are listed first: a server that does not do so in its time takes none of the time of the others.
        """
        uris, few = tuple(uris), asyncio.Semaphore(MAX_CONCURRENT)
        if not all(self._lookup_owner("resources/list", uri, peer) for uri in uris):
            await self.list_items(RpcRequest(id=0, method="resources/list"), peer)

        async def watch_uri(uri: str) -> None:
            known = self._lookup_owner("resources/list", uri, peer)
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

        with anyio.move_on_after(LIST_TIMEOUT_S):
            async with anyio.create_task_group() as group:
                for uri in uris:
                    group.start_soon(watch_uri, uri)

    async def watch(self, uri: str, peer: Peer) -> None:
        """Have the server that has this resource tell of its changes. Raises RpcError if none has it, or it cannot."""
        server, _ = await self._find_owner("resources/list", uri, peer)
        await self._subscribe(server, uri, peer)

    async def _subscribe(self, server: str, uri: str, peer: Peer) -> None:
        await self._ask(server, RpcRequest(id=0, method="resources/subscribe", params={"uri": uri}), peer)

    async def unwatch(self, uri: str, peer: Peer) -> None:
        server, _ = await self._find_owner("resources/list", uri, peer)
        await self._ask(server, RpcRequest(id=0, method="resources/unsubscribe", params={"uri": uri}), peer)

    def is_offered(self, capability: str, caller: Caller) -> bool:
        return bool(self._service.mcp_proxy.find_servers(capability, caller))

    async def _find_owner(self, method: str, name: str, peer: Peer) -> tuple[str, str]:
        """The server that lists this, and the name there. A list is asked for if nobody has asked yet."""
        known = self._lookup_owner(method, name, peer)
        if known is None:
            await self.list_items(RpcRequest(id=0, method=method), peer)
            known = self._lookup_owner(method, name, peer)
        if known is None:
            raise RpcError(INVALID_PARAMS, f"there is no {LIST_METHODS[method][0].rstrip('s')} {name[:80]!r} here")
        return known

    def _lookup_owner(self, method: str, name: str, peer: Peer) -> tuple[str, str] | None:
        capability, _, key = LIST_METHODS[method]
        server = self._owners.get((peer.caller, key, name))
        if server is None or server not in self._service.find_servers(peer.caller, capability):
            return None
        return server, name.removeprefix(f"{server}__") if key == "name" else name

    async def _list_all(self, method: str, field: str, servers: Sequence[str], peer: Peer) -> list[list[Json]]:
        return list(await asyncio.gather(*(self._list_server(method, field, server, peer) for server in servers)))

    async def _list_server(self, method: str, field: str, server: str, peer: Peer) -> list[Json]:
        """All pages of one server's list; nothing, and a line in the log, where it does not answer."""
        items: list[Json] = []
        params: Json = {}
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                for _ in range(MAX_PAGES):
                    page = await self._service.mcp_proxy.ask(server, peer.caller, method, params, peer.client)
                    items += _select_objects(page.get(field))
                    if not isinstance(page.get("nextCursor"), str) or len(items) > MAX_LISTED:
                        break
                    params = {"cursor": page["nextCursor"]}
        except (ToolyardError, TimeoutError) as error:
            _log.warning("server %s does not list its %s: %s", server, field, error or type(error).__name__)
        return items

    def _register_items(
        self, caller: Caller, server: str, items: Iterable[Json], key: str, taken: set[str]
    ) -> list[Json]:
        """A prompt whose name another server's has already gets its server's before it; an address is an address."""
        shown: list[Json] = []
        for one in items:
            name = str(one.get(key))
            if name in taken:
                if key != "name":
                    continue
                name, one = f"{server}__{name}", {**one, "name": f"{server}__{name}"}
            if len(self._owners) >= MAX_OWNERS:
                self._owners.clear()
            self._owners[caller, key, name] = server
            shown.append(one)
        return shown

    async def _ask(self, server: str, request: RpcRequest, peer: Peer, **changed: object) -> Json:
        params = {**request.params, **changed}
        meta = {name: value for name, value in read_object(params, "_meta").items() if name not in STRIPPED_META}
        params.pop("_meta", None)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                given: Json = {"_meta": meta} if meta else {}
                sent = {**params, **given}
                return await self._service.mcp_proxy.ask(server, peer.caller, request.method, sent, peer.client)
        except Declined as error:
            code = INVALID_PARAMS if peer.modern and error.code == RESOURCE_NOT_FOUND else error.code
            raise RpcError(code, str(error), error.data) from None
        except TimeoutError:
            raise Unavailable(f"the server {server!r} did not answer within {REQUEST_TIMEOUT_S:g} s") from None


def _select_objects(value: object) -> list[Json]:
    return (
        [cast(Json, one) for one in cast(list[object], value) if isinstance(one, dict)]
        if isinstance(value, list)
        else []
    )
