"""The server as one would write it by hand: Starlette, aiohttp and msgspec, with no journal and no feature of ours."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from msgspec import Struct
from msgspec.json import Decoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "loops"))
from _serve import add, serve, told
from hand_loop import ADDS, Asked, Turn, decode_add, encode

TOOLS = [{"type": "function", "function": {"name": "add", "description": "Add two numbers.", "parameters": ADDS}}]
HEAD = b'{"model":"bench","stream":true,"stream_options":{"include_usage":true},"tools":%b,"messages":[' % encode(TOOLS)
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer bench"}
URL = f"{told()}/v1/chat/completions"


class Body(Struct):
    prompt: str


decode_body = Decoder(Body).decode


def event(**told: object) -> bytes:
    return b"data: %b\n\n" % encode(told)


def status(state: str, call: Asked, **more: object) -> bytes:
    return event(type="tool.status", state=state, name=call.name, call_id=call.id, **more)


async def answer(call: Asked) -> tuple[Asked, int]:
    given = decode_add(call.arguments)
    return call, await add(given.a, given.b)


async def run(session: aiohttp.ClientSession, prompt: str) -> AsyncIterator[bytes]:
    history = [encode({"role": "user", "content": prompt})]
    while True:
        said: list[str] = []
        turn = Turn(said.append)
        async with session.post(URL, data=HEAD + b",".join(history) + b"]}") as response:
            response.raise_for_status()
            async for packet in response.content.iter_any():
                turn.feed(packet)
                if said:
                    yield b"".join([event(type="text.delta", content=text) for text in said])
                    said.clear()
        if not turn.calls:
            yield event(type="done", ending="done")
            return
        history.append(turn.message())
        yield b"".join([status("started", call, arguments=call.arguments) for call in turn.calls])
        for call, result in await asyncio.gather(*map(answer, turn.calls)):
            history.append(encode({"role": "tool", "tool_call_id": call.id, "content": str(result)}))
            yield status("finished", call, ok=True)


async def respond(request: Request) -> StreamingResponse:
    body = decode_body(await request.body())
    return StreamingResponse(run(request.app.state.session, body.prompt), media_type="text/event-stream")


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
    async with aiohttp.ClientSession(headers=HEADERS, connector=connector, timeout=timeout) as session:
        app.state.session = session
        yield


if __name__ == "__main__":
    serve(Starlette(routes=[Route("/ai/respond", respond, methods=["POST"])], lifespan=lifespan))
