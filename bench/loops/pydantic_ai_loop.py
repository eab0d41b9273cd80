"""pydantic-ai, streaming: an agent whose events are followed."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic_ai import Agent, AgentRunResultEvent, Tool, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

sys.path.insert(0, str(Path(__file__).parent))
from _measure import QUESTION, Run, Setting, main


def build_history(setting: Setting) -> list[ModelMessage]:
    messages: list[ModelMessage] = []
    for user_text, model_text in setting.build_prior_texts():
        messages += [ModelRequest(parts=[UserPromptPart(user_text)]), ModelResponse(parts=[TextPart(model_text)])]
    return messages


@asynccontextmanager
async def open_pydantic_ai(setting: Setting) -> AsyncIterator[Run]:
    model = OpenAIChatModel("bench", provider=OpenAIProvider(base_url=setting.base_url, api_key="bench"))
    others = [Tool(setting.add, name=f"add_{number}") for number in range(1, setting.tools)]
    agent = Agent(model, tools=[Tool(setting.add), Tool(setting.nap), *others])
    prior, limits = build_history(setting), UsageLimits(request_limit=None)

    async def run() -> str:
        answer = ""
        async with agent.run_stream_events(QUESTION, message_history=prior, usage_limits=limits) as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    answer = event.result.output
        return answer

    yield run


if __name__ == "__main__":
    main(open_pydantic_ai)
