"""Drives `openai-agents`."""

import protocol
from agents import (
    Agent,
    FunctionTool,
    HostedMCPTool,
    OpenAIChatCompletionsModel,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from protocol import Answer, OrderOutput, Photos


class AgentsClient:
    def __init__(self, url: str, api: str, model: str) -> None:
        """Begin a conversation.

        With the API `hosted-mcp`, each approval is an item of a response, and the user approves it. With `session`, the
        items are in a conversation of the server, else in this process.
        """
        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
        model_type = OpenAIChatCompletionsModel if api == "chat" else OpenAIResponsesModel
        self._model = model_type(model=model, openai_client=client)
        self._server_tools = [_build_hosted_tool(url)] if api == "hosted-mcp" else []
        self._session = OpenAIConversationsSession(openai_client=client) if api == "session" else None
        self._items: list = []

    async def ask(self, text: str, *, streamed: bool, has_tool: bool) -> Answer:
        photos = Photos()
        agent = Agent(
            name="Helper", model=self._model, tools=[*self._server_tools, *([_build_tool(photos)] if has_tool else [])]
        )
        items = text if self._session else [*self._items, {"role": "user", "content": text}]
        pieces: list[str] = []
        if streamed:
            result = Runner.run_streamed(agent, items, session=self._session)
            async for event in result.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    pieces.append(event.data.delta)
        else:
            result = await Runner.run(agent, items, session=self._session)
        self._items = result.to_input_list()
        return Answer(text=result.final_output, pieces=protocol.count(pieces), photos=photos.taken)

    async def ask_for_order(self, text: str) -> Answer:
        agent = Agent(name="Helper", model=self._model, output_type=OrderOutput)
        result = await Runner.run(agent, text)
        return Answer(order=result.final_output)


def _build_hosted_tool(url: str) -> HostedMCPTool:
    config = {"type": "mcp", "server_label": "shop", "server_url": f"{url.removesuffix('/v1')}/mcp"}
    return HostedMCPTool(tool_config=config, on_approval_request=lambda _: {"approve": True})


def _build_tool(photos: Photos) -> FunctionTool:
    return function_tool(photos.take, name_override="take_photo", description_override=protocol.PHOTO_DOC)


if __name__ == "__main__":
    set_tracing_disabled(True)
    protocol.main(AgentsClient)
