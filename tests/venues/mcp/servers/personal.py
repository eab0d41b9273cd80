"""An MCP server over HTTP whose tools are not the same for everybody who asks. `personal.py PORT`.

Who asks stands in the header `x-user-name`. What is another for one of them is told by `/control?user=…`: the
description of `look`, which then no longer only reads; `more`, a tool for them alone, or `many`; `without`, that `look`
is not for them; `nothing`, that nothing else is; and `hang`, that it does not answer them. It tells how many calls
came.
"""

import sys

import anyio
import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

OTHERWISE: dict[str, dict[str, str]] = {}
CALLS: list[str] = []
OBJECT = {"type": "object"}


def user_of(context: ServerRequestContext) -> str:
    return context.request.headers.get("x-user-name", "") if context.request else ""


def tool(name: str, description: str, reads: bool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=reads)
    return types.Tool(name=name, description=description, input_schema=OBJECT, annotations=hints)


async def listed(context: ServerRequestContext, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    own = OTHERWISE.get(user_of(context), {})
    tools = [tool("add", "Adds.", reads=True)] if "nothing" not in own else []
    if "without" not in own and "nothing" not in own:
        tools.append(tool("look", own.get("look", "Looks."), reads="look" not in own))
    tools += [
        tool(f"{user_of(context)}_{number}", "One of many.", reads=True) for number in range(int(own.get("many", 0)))
    ]
    if "more" in own:
        tools.append(tool("more", own["more"], reads=True))
    return types.ListToolsResult(tools=tools)


async def called(context: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
    CALLS.append(params.name)
    if "hang" in OTHERWISE.get(user_of(context), {}):
        await anyio.sleep_forever()
    said = f"{params.name} for {user_of(context)}"
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)])


async def control(request: Request) -> JSONResponse:
    words = dict(request.query_params)
    OTHERWISE[words.pop("user")] = words
    return JSONResponse({"calls": len(CALLS)})


async def nothing(context: ServerRequestContext, params: object) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[])


server = Server("personal", on_list_tools=listed, on_call_tool=called, on_list_resources=nothing)
app = server.streamable_http_app()
whole = Starlette(routes=[Route("/control", control), Mount("/", app)], lifespan=app.router.lifespan_context)
uvicorn.run(whole, port=int(sys.argv[1]), log_level="warning")
