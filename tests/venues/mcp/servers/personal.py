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

USER_SETTINGS: dict[str, dict[str, str]] = {}
CALLS: list[str] = []
OBJECT = {"type": "object"}


def user_of(context: ServerRequestContext) -> str:
    return context.request.headers.get("x-user-name", "") if context.request else ""


def tool(name: str, description: str, reads: bool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=reads)
    return types.Tool(name=name, description=description, input_schema=OBJECT, annotations=hints)


async def list_tools(
    context: ServerRequestContext, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    settings = USER_SETTINGS.get(user_of(context), {})
    tools = [tool("add", "Adds.", reads=True)] if "nothing" not in settings else []
    if "without" not in settings and "nothing" not in settings:
        tools.append(tool("look", settings.get("look", "Looks."), reads="look" not in settings))
    tools += [
        tool(f"{user_of(context)}_{number}", "One of many.", reads=True)
        for number in range(int(settings.get("many", 0)))
    ]
    if "more" in settings:
        tools.append(tool("more", settings["more"], reads=True))
    return types.ListToolsResult(tools=tools)


async def call_tool(context: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
    CALLS.append(params.name)
    if "hang" in USER_SETTINGS.get(user_of(context), {}):
        await anyio.sleep_forever()
    text = f"{params.name} for {user_of(context)}"
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def control(request: Request) -> JSONResponse:
    words = dict(request.query_params)
    USER_SETTINGS[words.pop("user")] = words
    return JSONResponse({"calls": len(CALLS)})


async def list_no_resources(context: ServerRequestContext, params: object) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[])


server = Server("personal", on_list_tools=list_tools, on_call_tool=call_tool, on_list_resources=list_no_resources)
app = server.streamable_http_app()
app_with_control = Starlette(routes=[Route("/control", control), Mount("/", app)], lifespan=app.router.lifespan_context)
uvicorn.run(app_with_control, port=int(sys.argv[1]), log_level="warning")
