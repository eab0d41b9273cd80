"""An MCP server over HTTP, of the old era and without any library, that forgets its sessions when told.

`forgetful.py PORT [no-ping]`: it answers an unknown session with 400, as many servers do, although MCP has 404 for it.
With `no-ping` it does not know the method `ping`, which it answers with 400 too.
"""

import asyncio
import secrets
import sys
from typing import cast

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

SESSIONS: set[str] = set()
CALLS: list[str] = []
RELEASED = asyncio.Event()
KNOWS_PING = "no-ping" not in sys.argv
TOOLS = ("count", "reject", "reject_and_forget", "forget", "wait", "release")


class Rejected(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


async def call(name: str, arguments: dict[str, object]) -> str:
    CALLS.append(name)
    if name == "wait":
        await RELEASED.wait()
    elif name == "release":
        RELEASED.set()
    elif name in ("forget", "reject_and_forget"):
        SESSIONS.clear()
    if name.startswith("reject"):
        raise Rejected(int(str(arguments.get("status", 400))), -32602, "Bad Request: no such shelf")
    return f"{name} was called {CALLS.count(name)} times over {len(SESSIONS)} sessions"


async def answer(method: str, params: dict[str, object]) -> dict[str, object]:
    if method == "initialize":
        info = {"name": "forgetful", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if method == "tools/call":
        text = await call(str(params["name"]), cast(dict[str, object], params["arguments"]))
        return {"content": [{"type": "text", "text": text}]}
    if method == "ping" and KNOWS_PING:
        return {}
    raise Rejected(400, -32601, f"no method {method}")


async def post(request: Request) -> Response:
    message, session = await request.json(), request.headers.get("mcp-session-id", "")
    id, method = message.get("id"), message["method"]
    headers: dict[str, str] = {}
    try:
        if method == "initialize":
            session = headers["mcp-session-id"] = secrets.token_hex(8)
            SESSIONS.add(session)
        elif session not in SESSIONS:
            raise Rejected(400, -32000, "Bad Request: No valid session ID provided")
        if id is None:
            return Response(status_code=202)
        result = await answer(method, message.get("params") or {})
        return JSONResponse({"jsonrpc": "2.0", "id": id, "result": result}, headers=headers)
    except Rejected as error:
        body = {"jsonrpc": "2.0", "id": id, "error": {"code": error.code, "message": str(error)}}
        return JSONResponse(body, status_code=error.status)


uvicorn.run(Starlette(routes=[Route("/mcp", post, methods=["POST"])]), port=int(sys.argv[1]), log_level="warning")
