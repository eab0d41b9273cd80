"""Drives `langchain-anthropic`."""

import protocol
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from protocol import Answer, OrderOutput, Photos


class LangChainClient:
    def __init__(self, url: str, api: str, model: str) -> None:
        base_url = url.removesuffix("/v1")
        self._chat = ChatAnthropic(base_url=base_url, api_key="none", model=model, max_retries=0, max_tokens=1000)
        self._messages: list[BaseMessage] = []

    async def ask(self, text: str, *, streamed: bool, has_tool: bool) -> Answer:
        photos = Photos()
        tool = StructuredTool.from_function(photos.take, name="take_photo", description=protocol.PHOTO_DOC)
        chat = self._chat.bind_tools([tool]) if has_tool else self._chat
        self._messages.append(HumanMessage(text))
        while True:
            message, pieces = await _stream(chat, self._messages) if streamed else await _invoke(chat, self._messages)
            self._messages.append(message)
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                self._messages.append(ToolMessage(photos.take(**call["args"]), tool_call_id=call["id"]))
        finish = message.response_metadata.get("stop_reason") or ""
        return Answer(text=message.text, pieces=pieces, finish=finish, photos=photos.taken)

    async def ask_for_order(self, text: str) -> Answer:
        return Answer(order=await self._chat.with_structured_output(OrderOutput, method="json_schema").ainvoke(text))


async def _invoke(chat, messages: list[BaseMessage]) -> tuple[AIMessage, int]:
    return await chat.ainvoke(messages), 0


async def _stream(chat, messages: list[BaseMessage]) -> tuple[AIMessage, int]:
    chunks = [chunk async for chunk in chat.astream(messages)]
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    return whole, protocol.count([chunk.text for chunk in chunks])


if __name__ == "__main__":
    protocol.main(LangChainClient)
