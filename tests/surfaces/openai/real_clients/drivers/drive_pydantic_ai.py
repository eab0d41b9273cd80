"""Drives `pydantic-ai`."""

import protocol
from anthropic import AsyncAnthropic
from protocol import Answer, OrderOutput, Photos
from pydantic_ai import Agent, NativeOutput, Tool
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider


class PydanticAIClient:
    def __init__(self, url: str, api: str, model: str) -> None:
        if api == "messages":
            client = AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key="none", max_retries=0)
            self._model = AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client))
        else:
            model_type = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
            self._model = model_type(model, provider=OpenAIProvider(base_url=url, api_key="none"))
        self._messages: list = []

    async def ask(self, text: str, *, streamed: bool, has_tool: bool) -> Answer:
        photos = Photos()
        tool = Tool(photos.take, name="take_photo", description=protocol.PHOTO_DOC, takes_ctx=False)
        agent = Agent(self._model, tools=[tool] if has_tool else [])
        pieces: list[str] = []
        if streamed:
            async with agent.run_stream(text, message_history=self._messages) as result:
                pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
            output, messages, finish = "".join(pieces), result.all_messages(), result.response.finish_reason
        else:
            result = await agent.run(text, message_history=self._messages)
            output, messages, finish = result.output, result.all_messages(), result.response.finish_reason
        self._messages = messages
        return Answer(text=output, pieces=protocol.count(pieces), finish=finish or "", photos=photos.taken)

    async def ask_for_order(self, text: str) -> Answer:
        result = await Agent(self._model, output_type=NativeOutput(OrderOutput)).run(text)
        return Answer(order=result.output)


if __name__ == "__main__":
    protocol.main(PydanticAIClient)
