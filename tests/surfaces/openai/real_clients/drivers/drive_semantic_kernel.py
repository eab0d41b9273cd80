"""Drives the Responses agent of `semantic-kernel`."""

import protocol
from openai import AsyncOpenAI
from protocol import Answer, OrderOutput, Photos
from semantic_kernel.agents import AgentThread, OpenAIResponsesAgent
from semantic_kernel.functions import KernelFunctionFromMethod, KernelPlugin, kernel_function


class SemanticKernelClient:
    def __init__(self, url: str, api: str, model: str) -> None:
        assert api == "responses"
        self._options = {"ai_model_id": model, "client": AsyncOpenAI(base_url=url, api_key="none", max_retries=0)}
        self._thread: AgentThread | None = None

    async def ask(self, text: str, *, streamed: bool, has_tool: bool) -> Answer:
        photos = Photos()
        agent = OpenAIResponsesAgent(**self._options, plugins=[_build_plugin(photos)] if has_tool else [])
        pieces: list[str] = []
        if streamed:
            async for item in agent.invoke_stream(text, thread=self._thread):
                pieces.append(item.message.content)
                self._thread = item.thread
            answer = "".join(pieces)
        else:
            response = await agent.get_response(text, thread=self._thread)
            answer, self._thread = response.message.content, response.thread
        return Answer(text=answer, pieces=protocol.count(pieces), photos=photos.taken)

    async def ask_for_order(self, text: str) -> Answer:
        form = OpenAIResponsesAgent.configure_response_format(OrderOutput)
        response = await OpenAIResponsesAgent(**self._options, text=form).get_response(text)
        return Answer(order=OrderOutput.model_validate_json(response.message.content))


def _build_plugin(photos: Photos) -> KernelPlugin:
    """Return a plugin whose function the model sees as `camera-take_photo`."""

    @kernel_function(name="take_photo", description=protocol.PHOTO_DOC)
    def take_photo(of: str) -> str:
        return photos.take(of)

    return KernelPlugin("camera", functions=[KernelFunctionFromMethod(take_photo, plugin_name="camera")])


if __name__ == "__main__":
    protocol.main(SemanticKernelClient)
