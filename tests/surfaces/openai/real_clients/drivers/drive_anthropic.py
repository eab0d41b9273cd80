"""Drives Anthropic's own SDK, with its tool runner where there is a tool."""

import protocol
from anthropic import AsyncAnthropic, beta_async_tool
from protocol import Answer, OrderOutput, Photos

MAX_TOKENS = 1_000


class AnthropicClient:
    def __init__(self, url: str, api: str, model: str) -> None:
        self._client = AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key="none", max_retries=0)
        self._model = model
        self._messages: list = []

    async def ask(self, text: str, *, streamed: bool, has_tool: bool) -> Answer:
        photos = Photos()
        self._messages.append({"role": "user", "content": text})
        body = {"model": self._model, "max_tokens": MAX_TOKENS, "messages": self._messages}
        if has_tool:
            return await self._run_tools(body, photos, streamed)
        pieces: list[str] = []
        if streamed:
            async with self._client.messages.stream(**body) as stream:
                pieces = [piece async for piece in stream.text_stream]
                message = await stream.get_final_message()
        else:
            message = await self._client.messages.create(**body)
        return self._remember(message, pieces, photos)

    async def _run_tools(self, body: dict, photos: Photos, streamed: bool) -> Answer:
        @beta_async_tool(name="take_photo", description=protocol.PHOTO_DOC, input_schema=protocol.PHOTO_PARAMETERS)
        async def take_photo(of: str) -> str:
            return photos.take(of)

        message = None
        runner = self._client.beta.messages.tool_runner(**body, tools=[take_photo], stream=streamed)
        async for step in runner:
            message = await step.get_final_message() if streamed else step
        return self._remember(message, [], photos)

    def _remember(self, message, pieces: list[str], photos: Photos) -> Answer:
        blocks = [block.to_dict() for block in message.content]
        self._messages.append({"role": "assistant", "content": blocks})
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        count = protocol.count(pieces)
        return Answer(text=text, pieces=count, finish=message.stop_reason or "", photos=photos.taken)

    async def ask_for_order(self, text: str) -> Answer:
        message = await self._client.messages.parse(
            model=self._model,
            max_tokens=MAX_TOKENS,
            messages=[{"role": "user", "content": text}],
            output_format=OrderOutput,
        )
        return Answer(order=message.parsed_output)


if __name__ == "__main__":
    protocol.main(AnthropicClient)
