"""An application's MCP servers, in its process, beside it and elsewhere, behind one router."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from client.drivers import build_package, node_path
from ports import listen
from real_servers import install_npm_package
from surfaces.api_client import build_yard
from surfaces.http_server import serve_yard
from toolyard.client import AppClient
from toolyard.core.errors import Misconfigured
from toolyard.core.items import Result
from toolyard.testing import Scripted, call, say, together

CHILD = {"command": sys.executable, "args": [str(Path(__file__).parent / "shop_server.py")]}


def shop() -> MCPServer:
    server = MCPServer("ecommerce")

    @server.tool()
    def search_products(query: str) -> list[str]:
        """Find products."""
        return [f"{query} 1 L"]

    @server.tool()
    def sold_out() -> str:
        """Fails."""
        raise ToolError("sold out")

    @server.tool()
    def whose(context: Context) -> str:
        """Which division it is for."""
        return f"of {(context.request_context.meta or {}).get('toolyard/division')}"

    return server


@contextmanager
def serve_parcels() -> Generator[str]:
    """The address of an MCP server of another program: over HTTP, in a thread with a loop of its own."""
    parcels = MCPServer("parcels")

    @parcels.tool()
    def track(order: str) -> str:
        """Where an order is."""
        return f"order {order} is on its way"

    app = parcels.streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=2))
    listening = listen()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(30)


def run_client(model: Scripted, **options: object) -> None:
    async def run() -> None:
        async with (
            asyncio.timeout(120),
            build_yard(model) as yard,
            serve_yard(yard) as url,
            AppClient(url, **options) as app,  # pyright: ignore[reportArgumentType]
        ):
            assert await app.ask("go") == "ok"

    asyncio.run(run())


@pytest.mark.proves("000.many-servers-routed", "000.one-server")
def test_tools_of_several_servers_and_functions_are_offered_together_and_each_call_reaches_its_own() -> None:
    async def add_to_cart(code: str) -> str:
        """Put a product into the cart."""
        return f"{code} added"

    calls_turn = together(
        call("search_products", query="milk"), call("screens__search_products", query="milk"), call("open_checkout"),
        call("add_to_cart", code="M1"), call("sold_out"), call("track", order="1001"),
    )  # fmt: skip
    model = Scripted([calls_turn, say("ok")])
    with serve_parcels() as url:
        servers = {"ecommerce": shop(), "screens": CHILD, "parcels": {"url": url}}
        run_client(model, tools=[add_to_cart], servers=servers)
    results = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert [result.outcome for result in results] == ["ok", "ok", "ok", "ok", "error", "ok"]
    expected_texts = [
        "milk 1 L",
        "page for milk",
        "checkout is open",
        "M1 added",
        "sold out",
        "order 1001 is on its way",
    ]
    assert [words in result.content for words, result in zip(expected_texts, results, strict=True)] == [True] * 6


def test_one_server_alone_is_enough() -> None:
    model = Scripted([call("search_products", query="milk"), say("ok")])
    run_client(model, servers={"ecommerce": shop()})
    assert [tool.name for tool in model.requests[0].offer.tools] == ["search_products", "sold_out", "whose"]


def test_a_server_of_the_app_is_told_for_which_division_a_call_is() -> None:
    model = Scripted([call("whose"), say("ok")])
    run_client(model, servers={"ecommerce": shop()}, context={"division": "clothing"})
    (call_result,) = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert "of clothing" in call_result.content


@pytest.mark.proves("000.many-servers-routed")
async def test_in_typescript_clients_of_several_servers_are_routed_as_well() -> None:
    """The app's own functions, a server of its process and a child of it, by the clients of MCP's own SDK."""
    build_package()
    names = ("search_products", "screens__search_products", "open_checkout", "get_cart", "shop__get_cart", "sold_out")
    arguments = {"screens__search_products": {"query": "milk"}}
    calls = [call(name, **arguments.get(name, {})) for name in (*names, "whose", "show_product_")]
    model = Scripted([together(*calls), say("ok")])
    modules = str(install_npm_package("@modelcontextprotocol").parent)

    async def run() -> bytes:
        async with asyncio.timeout(120), build_yard(model) as yard, serve_yard(yard) as url:
            words = [node_path(), str(Path(__file__).parent / "drive_servers.mjs"), url, modules, json.dumps(CHILD)]
            process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
            return (await process.communicate())[0]

    assert (await run()) == b"ok\n"
    results = [item for item in model.requests[1].history if isinstance(item, Result)]
    expected_texts = ["milk 1 L", "page for milk", "checkout is open", "the app's own", '{"things": 2}', None]
    assert [result.content if result.error is None else None for result in results[:6]] == expected_texts
    assert results[5].error is not None and (results[5].error.error, results[5].error.error_type) == (
        "sold out",
        "not_found",
    )
    assert [result.content for result in results[6:]] == ["of clothing", "[image: image/png, 3 bytes]"]


async def test_what_is_no_server_is_said() -> None:
    async def run() -> None:
        async with AppClient("http://127.0.0.1:1", servers={"shop": 7}):
            pass

    with pytest.raises(Misconfigured, match="server 'shop': give an MCPServer"):
        await run()
