"""Offer the resources, prompts and completions of all MCP servers as those of one; their answers pass unchanged.

A list is the lists of all servers, one after the other, without those that do not answer. A single item is requested
from the server that listed it. A caller sees the servers that have a tool for that caller, and those without any tools.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

import anyio

from toolyard.core.caller import Caller
from toolyard.core.errors import Declined, ToolyardError, Unavailable
from toolyard.core.json_types import Json, is_list, is_object
from toolyard.engine.service import Service
from toolyard.surfaces.mcp.client import META_PREFIX, Peer
from toolyard.surfaces.mcp.jsonrpc import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
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
"""For each list: the capability, the field of the answer, and the key that identifies an item."""
_log = logging.getLogger("toolyard.mcp")


class McpPassthrough:
    """Requests to the MCP servers for everything but tools."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._owners: dict[tuple[Caller, str, str], str] = {}
        """The server that listed an item last, by caller, key and name. Dropped when full; the next list refills it."""

    async def list_items(self, request: RpcRequest, peer: Peer) -> Json:
        capability, field, key = LIST_METHODS[request.method]
        items: list[Json] = []
        servers = self._service.tools.find_servers(peer.caller, capability)
        lists = await self._list_all(request.method, field, servers, peer)
        for server, listed in zip(servers, lists, strict=True):
            items += self._register_items(peer.caller, server, listed, key, {str(item.get(key)) for item in items})
        return {field: items[:MAX_LISTED]}

    async def read_resource(self, request: RpcRequest, peer: Peer) -> Json:
        """Read a resource from the server that listed it, else from the first of the others that has it."""
        uri = require_text(request.params, "uri")
        servers = self._service.tools.find_servers(peer.caller, "resources")
        owner = self._owners.get((peer.caller, "uri", uri))
        owners = [server for server in servers if server == owner]
        others = [server for server in servers if server != owner]
        failures: list[RpcError | ToolyardError] = []
        for candidates in (owners, others):
            if (resource := await self._ask_first(candidates, request, peer, failures)) is not None:
                return resource
        unknown = RpcError(INVALID_PARAMS if peer.modern else RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})
        # The owner's failure says most. Without an owner, an answer that refuses the URI says more than an outage.
        relevant = failures[:1] if owners else [error for error in failures if isinstance(error, RpcError)]
        raise next(iter([*relevant, *failures]), unknown)

    async def _ask_first(
        self, servers: Sequence[str], request: RpcRequest, peer: Peer, failures: list[RpcError | ToolyardError]
    ) -> Json | None:
        """Ask the servers at once and return the first answer, or None; add the errors of the others to `failures`."""
        answers: list[Json] = []

        async def ask_server(server: str) -> None:
            try:
                answers.append(await self._ask(server, request, peer))
                group.cancel_scope.cancel()
            except (RpcError, ToolyardError) as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            for server in servers:
                group.start_soon(ask_server, server)
        return answers[0] if answers else None

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
        """Subscribe to the updates of all resources at once, and add those that succeed in time to `watched`."""
        uris, slots = tuple(uris), asyncio.Semaphore(MAX_CONCURRENT)
        # List before the timeout starts: each server has its own time there, so a slow one cannot use up the others'.
        if not all(self._lookup_owner("resources/list", uri, peer) for uri in uris):
            await self.list_items(RpcRequest(id=0, method="resources/list"), peer)

        async def watch_uri(uri: str) -> None:
            owner = self._lookup_owner("resources/list", uri, peer)
            if owner is None:
                return
            async with slots:
                watched.add(uri)  # before subscribing, so that an update that follows at once is not missed
                try:
                    await self._subscribe(owner[0], uri, peer)
                except BaseException as error:
                    watched.discard(uri)
                    if not isinstance(error, RpcError | ToolyardError):
                        raise

        with anyio.move_on_after(LIST_TIMEOUT_S):
            async with anyio.create_task_group() as group:
                for uri in uris:
                    group.start_soon(watch_uri, uri)

    async def watch(self, uri: str, peer: Peer) -> None:
        """Subscribe to the updates of a resource. Raise RpcError if no server has it, or its server refuses."""
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
        """Return the server that lists an item and the item's name there. Raise RpcError if there is none.

        The lists are requested first if the item is not known yet.
        """
        owner = self._lookup_owner(method, name, peer)
        if owner is None:
            await self.list_items(RpcRequest(id=0, method=method), peer)
            owner = self._lookup_owner(method, name, peer)
        if owner is None:
            raise RpcError(INVALID_PARAMS, f"there is no {LIST_METHODS[method][0].rstrip('s')} {name[:80]!r} here")
        return owner

    def _lookup_owner(self, method: str, name: str, peer: Peer) -> tuple[str, str] | None:
        capability, _, key = LIST_METHODS[method]
        server = self._owners.get((peer.caller, key, name))
        if server is None or server not in self._service.tools.find_servers(peer.caller, capability):
            return None
        return server, name.removeprefix(f"{server}__") if key == "name" else name

    async def _list_all(self, method: str, field: str, servers: Sequence[str], peer: Peer) -> list[list[Json]]:
        return list(await asyncio.gather(*(self._list_server(method, field, server, peer) for server in servers)))

    async def _list_server(self, method: str, field: str, server: str, peer: Peer) -> list[Json]:
        """Return all pages of one server's list. If it fails, log that and return the pages received so far."""
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
        self, caller: Caller, server: str, items: Iterable[Json], key: str, taken_names: set[str]
    ) -> list[Json]:
        """Return the items of a server to list, and remember it as their owner.

        A prompt whose name is taken by another server gets the server's id as a prefix. A URI that is taken is dropped:
        it names the same resource.
        """
        registered: list[Json] = []
        for item in items:
            name = str(item.get(key))
            if name in taken_names:
                if key != "name":
                    continue
                name, item = f"{server}__{name}", {**item, "name": f"{server}__{name}"}
            if len(self._owners) >= MAX_OWNERS:
                self._owners.clear()
            self._owners[caller, key, name] = server
            registered.append(item)
        return registered

    async def _ask(self, server: str, request: RpcRequest, peer: Peer, **changed: object) -> Json:
        """Send a client's request to a server. Raise RpcError for its error, Unavailable if it does not answer."""
        # The client's version, capabilities and progress token are valid between it and us only.
        params = {**request.params, **changed}
        meta = {name: value for name, value in read_object(params, "_meta").items() if name not in STRIPPED_META}
        params.pop("_meta", None)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                meta_field: Json = {"_meta": meta} if meta else {}
                sent = {**params, **meta_field}
                return await self._service.mcp_proxy.ask(server, peer.caller, request.method, sent, peer.client)
        except Declined as error:
            code = INVALID_PARAMS if peer.modern and error.code == RESOURCE_NOT_FOUND else error.code
            raise RpcError(code, str(error), error.data) from None
        except TimeoutError:
            raise Unavailable(f"the server {server!r} did not answer within {REQUEST_TIMEOUT_S:g} s") from None


def _select_objects(value: object) -> list[Json]:
    return [item for item in value if is_object(item)] if is_list(value) else []
