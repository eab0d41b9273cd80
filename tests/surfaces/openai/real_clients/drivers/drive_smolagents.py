"""Drives the agent of `smolagents` that calls tools. It sends `tool_choice: "required"`."""

import asyncio
from typing import ClassVar

import protocol
from protocol import Answer, Photos
from smolagents import ChatMessageStreamDelta, FinalAnswerStep, LogLevel, OpenAIServerModel, Tool, ToolCallingAgent


class PhotoTool(Tool):
    name = "take_photo"
    description = protocol.PHOTO_DOC
    inputs: ClassVar = {"of": {"type": "string", "description": "What to take a photo of."}}
    output_type = "string"

    def __init__(self, photos: Photos) -> None:
        super().__init__()
        self._photos = photos

    def forward(self, of: str) -> str:
        return self._photos.take(of)


class SmolagentsClient:
    def __init__(self, url: str, api: str, model: str) -> None:
        assert api == "chat"
        self._model = OpenAIServerModel(model, api_base=url, api_key="none", client_kwargs={"max_retries": 0})

    async def ask(self, text: str, *, streamed: bool, has_tool: bool) -> Answer:
        photos = Photos()
        agent = ToolCallingAgent(
            [PhotoTool(photos)] if has_tool else [],
            self._model,
            stream_outputs=streamed,
            verbosity_level=LogLevel.OFF,
            max_steps=4,
        )
        steps = await asyncio.to_thread(lambda: list(agent.run(text, stream=True)))
        pieces = [step for step in steps if isinstance(step, ChatMessageStreamDelta)]
        (answer,) = [step.output for step in steps if isinstance(step, FinalAnswerStep)]
        return Answer(text=answer, pieces=len(pieces), photos=photos.taken)

    async def ask_for_order(self, text: str) -> Answer:
        raise NotImplementedError


if __name__ == "__main__":
    protocol.main(SmolagentsClient)
