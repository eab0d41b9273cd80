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
from _serve import add, serve, told

UNBOUND = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
"""By default only 100 requests to the model may be open at a time."""
app = FastAPI()
client = httpx2.AsyncClient(limits=UNBOUND, timeout=120)
provider = OpenAIProvider(base_url=f"{told()}/v1", api_key="bench", http_client=client)
agent = Agent(OpenAIChatModel("bench", provider=provider), tools=[Tool(add)])
limits = UsageLimits(request_limit=None)


class Body(BaseModel):
    prompt: str


def event(**told: object) -> str:
    return f"data: {json.dumps(told)}\n\n"


async def run(prompt: str) -> AsyncIterator[str]:
    async with agent.run_stream_events(prompt, usage_limits=limits) as events:
        async for one in events:
            match one:
                case PartStartEvent(part=TextPart(content=text)) if text:
                    yield event(type="text.delta", content=text)
                case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                    yield event(type="text.delta", content=text)
                case FunctionToolCallEvent(part=part):
                    about = {"name": part.tool_name, "call_id": part.tool_call_id}
                    yield event(type="tool.status", state="started", arguments=part.args_as_dict(), **about)
                case FunctionToolResultEvent():
                    yield event(type="tool.status", state="finished", call_id=one.tool_call_id, ok=True)
                case AgentRunResultEvent():
                    yield event(type="done", ending="done")
                case _:
                    pass


@app.post("/ai/respond")
async def respond(body: Body) -> StreamingResponse:
    return StreamingResponse(run(body.prompt), media_type="text/event-stream")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    serve(app)
