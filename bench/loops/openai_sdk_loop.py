"""The loop that the openai SDK's documentation shows: a list of messages, streamed completions, tools by hand."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from openai import AsyncOpenAI

sys.path.insert(0, str(Path(__file__).parent))
from _measure import QUESTION, Run, Setting, main


def build_parameters(*names: str) -> dict[str, object]:
    return {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": list(names)}


def build_schemas(setting: Setting) -> list[dict[str, object]]:
    tools = [("add", ("a", "b")), ("nap", ("ms",)), *((f"add_{n}", ("a", "b")) for n in range(1, setting.tools))]
    return [
        {
            "type": "function",
            "function": {"name": name, "description": "Add two numbers.", "parameters": build_parameters(*names)},
        }
        for name, names in tools
    ]


async def stream_reply(client: AsyncOpenAI, messages: list[dict[str, object]], tools: list[dict[str, object]]):
    text, calls = [], []
    stream = await client.chat.completions.create(
        model="bench", messages=messages, tools=tools, stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        for choice in chunk.choices:
            if choice.delta.content:
                text.append(choice.delta.content)
            for call in choice.delta.tool_calls or ():
                if call.index == len(calls):
                    calls.append({"id": call.id, "name": call.function.name, "arguments": ""})
                calls[call.index]["arguments"] += call.function.arguments or ""
    return "".join(text), calls


@asynccontextmanager
async def open_openai_sdk(setting: Setting) -> AsyncIterator[Run]:
    tools, functions = build_schemas(setting), {"add": setting.add, "nap": setting.nap}
    prior: list[dict[str, object]] = []
    for user_text, model_text in setting.build_prior_texts():
        prior += [{"role": "user", "content": user_text}, {"role": "assistant", "content": model_text}]
    async with AsyncOpenAI(base_url=setting.base_url, api_key="bench") as client:

        async def run() -> str:
            messages = [*prior, {"role": "user", "content": QUESTION}]
            while True:
                text, calls = await stream_reply(client, messages, tools)
                if not calls:
                    return text
                tool_calls = [
                    {"id": call["id"], "type": "function", "function": {k: call[k] for k in ("name", "arguments")}}
                    for call in calls
                ]
                messages.append({"role": "assistant", "content": None, "tool_calls": tool_calls})
                results = await asyncio.gather(*(functions[c["name"]](**json.loads(c["arguments"])) for c in calls))
                for call, result in zip(calls, results, strict=True):
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})

        yield run


if __name__ == "__main__":
    main(open_openai_sdk)
