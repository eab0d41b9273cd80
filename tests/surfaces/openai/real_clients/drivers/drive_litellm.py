"""Drives `litellm`."""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it is loaded from the Internet

import json

import litellm
import protocol
from protocol import Answer, OrderOutput, Photos


class LiteLLMChat:
    def __init__(self, url: str, model: str) -> None:
        self._target = {"api_base": url, "api_key": "none", "model": f"openai/{model}", "max_retries": 0}
        self._messages: list = []

    async def ask(self, text: str, *, streamed: bool, has_tool: bool) -> Answer:
        photos = Photos()
        function = {"name": "take_photo", "description": protocol.PHOTO_DOC, "parameters": protocol.PHOTO_PARAMETERS}
        fields = {"tools": [{"type": "function", "function": function}]} if has_tool else {}
        self._messages.append({"role": "user", "content": text})
        while True:
            answer, pieces = await self._complete(streamed, **fields)
            message = answer.choices[0].message
            self._messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                content = photos.take(**json.loads(call.function.arguments))
                self._messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
        return Answer(text=message.content, pieces=pieces, finish=answer.choices[0].finish_reason, photos=photos.taken)

    async def _complete(self, streamed: bool, **fields: object):
        answer = await litellm.acompletion(messages=self._messages, stream=streamed, **self._target, **fields)
        if not streamed:
            return answer, 0
        chunks = [chunk async for chunk in answer]
        pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        return litellm.stream_chunk_builder(chunks, messages=self._messages), protocol.count(pieces)

    async def ask_for_order(self, text: str) -> Answer:
        messages = [{"role": "user", "content": text}]
        answer = await litellm.acompletion(messages=messages, response_format=OrderOutput, **self._target)
        return Answer(order=OrderOutput.model_validate_json(answer.choices[0].message.content))


class LiteLLMResponses:
    def __init__(self, url: str, model: str) -> None:
        self._target = {"api_base": url, "api_key": "none", "model": f"openai/{model}", "max_retries": 0}
        self._previous: str | None = None

    async def ask(self, text: str, *, streamed: bool, has_tool: bool) -> Answer:
        photos = Photos()
        function = {"name": "take_photo", "description": protocol.PHOTO_DOC, "parameters": protocol.PHOTO_PARAMETERS}
        fields = {"tools": [{"type": "function", **function}]} if has_tool else {}
        items: list = [{"role": "user", "content": text}]
        while True:
            response, pieces = await self._respond(items, streamed, **fields)
            self._previous = response.id
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            items = [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": photos.take(**json.loads(call.arguments)),
                }
                for call in calls
            ]
        finish = response.incomplete_details.reason if response.incomplete_details else "stop"
        return Answer(text=response.output_text, pieces=pieces, finish=finish, photos=photos.taken)

    async def _respond(self, items: list, streamed: bool, **fields: object):
        answer = await litellm.aresponses(
            input=items, stream=streamed, previous_response_id=self._previous, **self._target, **fields
        )
        if not streamed:
            return answer, 0
        events = [event async for event in answer]
        pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
        return events[-1].response, protocol.count(pieces)

    async def ask_for_order(self, text: str) -> Answer:
        form = {"format": {"type": "json_schema", "name": "order", "schema": protocol.ORDER_SCHEMA, "strict": True}}
        response = await litellm.aresponses(input=text, text=form, **self._target)
        return Answer(order=OrderOutput.model_validate_json(response.output_text))


def open_client(url: str, api: str, model: str) -> protocol.DrivenClient:
    return LiteLLMChat(url, model) if api == "chat" else LiteLLMResponses(url, model)


if __name__ == "__main__":
    protocol.main(open_client)
