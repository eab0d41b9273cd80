"""A hand-written server on Starlette, aiohttp and msgspec, with no journal and no feature of Toolyard."""

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
from _serve import add, read_model_url, serve
from hand_loop import ADD_SCHEMA, ToolCall, Turn, decode_add, encode

TOOLS = [{"type": "function", "function": {"name": "add", "description": "Add two numbers.", "parameters": ADD_SCHEMA}}]
HEAD = b'{"model":"bench","stream":true,"stream_options":{"include_usage":true},"tools":%b,"messages":[' % encode(TOOLS)
PLAIN_HEAD = b'{"model":"bench","stream":true,"stream_options":{"include_usage":true},"messages":'
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer bench"}
URL = f"{read_model_url()}/v1/chat/completions"


class BareBody(Struct):
    prompt: str


class ChatMessage(Struct):
    role: str
    content: str


class ChatBody(Struct):
    messages: list[ChatMessage]


decode_body = Decoder(BareBody).decode
decode_chat_body = Decoder(ChatBody).decode


def encode_event(**fields: object) -> bytes:
    return b"data: %b\n\n" % encode(fields)


def encode_status(state: str, call: ToolCall, **more: object) -> bytes:
    return encode_event(type="tool.status", state=state, name=call.name, call_id=call.id, **more)


async def run_call(call: ToolCall) -> tuple[ToolCall, int]:
    arguments = decode_add(call.arguments)
    return call, await add(arguments.a, arguments.b)


async def run(session: aiohttp.ClientSession, prompt: str) -> AsyncIterator[bytes]:
    history = [encode({"role": "user", "content": prompt})]
    while True:
        texts: list[str] = []
        turn = Turn(texts.append)
        async with session.post(URL, data=HEAD + b",".join(history) + b"]}") as response:
            response.raise_for_status()
            async for packet in response.content.iter_any():
                turn.feed(packet)
                if texts:
                    yield b"".join([encode_event(type="text.delta", content=text) for text in texts])
                    texts.clear()
        if not turn.calls:
            yield encode_event(type="done", ending="done")
            return
        history.append(turn.encode_message())
        yield b"".join([encode_status("started", call, arguments=call.arguments) for call in turn.calls])
        for call, result in await asyncio.gather(*map(run_call, turn.calls)):
            history.append(encode({"role": "tool", "tool_call_id": call.id, "content": str(result)}))
            yield encode_status("finished", call, ok=True)


async def respond(request: Request) -> StreamingResponse:
    body = decode_body(await request.body())
    return StreamingResponse(run(request.app.state.session, body.prompt), media_type="text/event-stream")


def encode_chunk(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return encode_event(id="chatcmpl-bare", object="chat.completion.chunk", created=0, model="bench", choices=[choice])


async def relay(session: aiohttp.ClientSession, messages: list[ChatMessage]) -> AsyncIterator[bytes]:
    texts: list[str] = []
    turn = Turn(texts.append)
    yield encode_chunk({"role": "assistant", "content": ""})
    async with session.post(URL, data=PLAIN_HEAD + encode(messages) + b"}") as response:
        response.raise_for_status()
        async for packet in response.content.iter_any():
            turn.feed(packet)
            if texts:
                yield b"".join([encode_chunk({"content": text}) for text in texts])
                texts.clear()
    yield encode_chunk({}, turn.finish_reason) + b"data: [DONE]\n\n"


async def complete(request: Request) -> StreamingResponse:
    """Answer a chat completion without tools: decode what was sent, encode it for the model, pass the text on."""
    body = decode_chat_body(await request.body())
    return StreamingResponse(relay(request.app.state.session, body.messages), media_type="text/event-stream")


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
    async with aiohttp.ClientSession(headers=HEADERS, connector=connector, timeout=timeout) as session:
        app.state.session = session
        yield


if __name__ == "__main__":
    routes = [
        Route("/ai/respond", respond, methods=["POST"]),
        Route("/v1/chat/completions", complete, methods=["POST"]),
    ]
    serve(Starlette(routes=routes, lifespan=lifespan))
