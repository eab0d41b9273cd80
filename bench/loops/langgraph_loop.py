"""langgraph's ready-made agent, streaming messages."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

sys.path.insert(0, str(Path(__file__).parent))
from _measure import QUESTION, Run, Setting, main


@asynccontextmanager
async def open_langgraph(setting: Setting) -> AsyncIterator[Run]:
    others = [
        StructuredTool.from_function(coroutine=setting.add, name=f"add_{number}") for number in range(1, setting.tools)
    ]
    tools = [StructuredTool.from_function(coroutine=function) for function in (setting.add, setting.nap)]
    model = ChatOpenAI(model="bench", base_url=setting.base_url, api_key="bench", streaming=True, stream_usage=True)
    agent = create_react_agent(model, [*tools, *others])
    prior: list[BaseMessage] = []
    for user_text, model_text in setting.build_prior_texts():
        prior += [HumanMessage(user_text), AIMessage(model_text)]

    async def run() -> str:
        text: list[str] = []
        state = {"messages": [*prior, HumanMessage(QUESTION)]}
        async for message, _ in agent.astream(state, {"recursion_limit": 200}, stream_mode="messages"):
            if isinstance(message, AIMessageChunk):
                text.append(str(message.content))
        return "".join(text)

    yield run


if __name__ == "__main__":
    main(open_langgraph)
