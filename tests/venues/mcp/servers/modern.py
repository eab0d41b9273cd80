"""A server made with the official SDK, which speaks both eras: over stdio, or over HTTP at the port it is given."""

import asyncio
import os
import sys
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.server.mcpserver.resolve import ElicitationResult
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("modern")
READS = ToolAnnotations(read_only_hint=True)


class Name(BaseModel):
    name: str


class Age(BaseModel):
    age: int


def ask_name() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


def ask_age() -> Elicit[Age]:
    return Elicit("How old are you?", Age)


@server.tool(annotations=READS)
def greet(name: Annotated[ElicitationResult[Name], Resolve(ask_name)]) -> str:
    """Greets the user by name."""
    return f"hello {name.data.name}" if name.action == "accept" else f"the user chose to {name.action}"


@server.tool(annotations=READS)
async def push_look(ctx: Context) -> str:
    """Greets the user by name, asking with a request of its own: only the old era has such requests."""
    answer = await ctx.elicit("What is your name?", Name)
    return f"hello {answer.data.name}" if answer.action == "accept" else answer.action


CALLS: list[str] = []


@server.tool()
async def push(ctx: Context) -> str:
    """The same, after doing something that must not be done twice."""
    CALLS.append("push")
    return f"{await push_look(ctx)} after {len(CALLS)} calls"


@server.tool(annotations=READS)
def describe(name: Annotated[Name, Resolve(ask_name)], age: Annotated[Age, Resolve(ask_age)]) -> str:
    """Needs two answers."""
    return f"{name.name} is {age.age}"


@server.tool(annotations=READS)
def whoami(ctx: Context) -> str:
    """Who the server thinks it talks to."""
    return f"{os.environ.get('USER_NAME', (ctx.headers or {}).get('x-user-name', ''))} at {os.getpid()}"


@server.tool(annotations=READS)
async def wait(seconds: float) -> str:
    """Takes a while."""
    await asyncio.sleep(seconds)
    return "waited"


@server.tool()
async def more(ctx: Context) -> str:
    """From now on there is one more tool."""
    server.add_tool(lambda: "extra", name="extra", description="It was added later.")
    await ctx.notify_tools_changed()
    return "added"


if len(sys.argv) > 1:
    uvicorn.run(server.streamable_http_app(), port=int(sys.argv[1]), log_level="warning")
else:
    server.run()
