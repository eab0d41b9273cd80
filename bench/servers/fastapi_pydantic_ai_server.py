"""FastAPI and pydantic-ai, as their documentation shows: an agent, and its events as server-sent events."""

import json
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from pydantic_ai import Agent, AgentRunResultEvent, Tool, UsageLimits
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

sys.path.insert(0, str(Path(__file__).parent))
from _serve import add, read_model_url, serve

UNLIMITED = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
"""By default only 100 requests to the model may be open at a time."""
app = FastAPI()
client = httpx2.AsyncClient(limits=UNLIMITED, timeout=120)
provider = OpenAIProvider(base_url=f"{read_model_url()}/v1", api_key="bench", http_client=client)
agent = Agent(OpenAIChatModel("bench", provider=provider), tools=[Tool(add)])
limits = UsageLimits(request_limit=None)


class Body(BaseModel):
    prompt: str


def encode_event(**fields: object) -> str:
    return f"data: {json.dumps(fields)}\n\n"


async def run(prompt: str) -> AsyncIterator[str]:
    async with agent.run_stream_events(prompt, usage_limits=limits) as events:
        async for event in events:
            match event:
                case PartStartEvent(part=TextPart(content=text)) if text:
                    yield encode_event(type="text.delta", content=text)
                case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                    yield encode_event(type="text.delta", content=text)
                case FunctionToolCallEvent(part=part):
                    call_fields = {"name": part.tool_name, "call_id": part.tool_call_id}
                    yield encode_event(
                        type="tool.status", state="started", arguments=part.args_as_dict(), **call_fields
                    )
                case FunctionToolResultEvent():
                    yield encode_event(type="tool.status", state="finished", call_id=event.tool_call_id, ok=True)
                case AgentRunResultEvent():
                    yield encode_event(type="done", ending="done")
                case _:
                    pass


@app.post("/ai/respond")
async def respond(body: Body) -> StreamingResponse:
    return StreamingResponse(run(body.prompt), media_type="text/event-stream")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    serve(app)
