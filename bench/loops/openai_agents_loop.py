"""openai-agents, streaming, on Chat Completions."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

sys.path.insert(0, str(Path(__file__).parent))
from _measure import QUESTION, Run, Setting, main


@asynccontextmanager
async def open_openai_agents(setting: Setting) -> AsyncIterator[Run]:
    set_tracing_disabled(True)
    others = [function_tool(setting.add, name_override=f"add_{number}") for number in range(1, setting.tools)]
    tools = [function_tool(setting.add), function_tool(setting.nap), *others]
    prior: list[dict[str, str]] = []
    for user_text, model_text in setting.build_prior_texts():
        prior += [{"role": "user", "content": user_text}, {"role": "assistant", "content": model_text}]
    async with AsyncOpenAI(base_url=setting.base_url, api_key="bench") as client:
        model = OpenAIChatCompletionsModel(model="bench", openai_client=client)
        agent = Agent(name="bench", model=model, tools=tools)

        async def run() -> str:
            messages = [*prior, {"role": "user", "content": QUESTION}]
            result = Runner.run_streamed(agent, messages, max_turns=100)
            async for _ in result.stream_events():
                pass
            return str(result.final_output)

        yield run


if __name__ == "__main__":
    main(open_openai_agents)
