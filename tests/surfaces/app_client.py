"""A client of the endpoint for applications, and the tools that it sends."""

from collections.abc import AsyncGenerator, Mapping, Sequence

from surfaces.api_client import ApiClient, Json

PATH = "/chat/v1/conversation"
SEARCH = {
    "name": "search_products",
    "description": "Find products.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}
ADD_TO_CART = {
    "name": "add_to_cart",
    "description": "Put a product into the cart.",
    "inputSchema": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
}
CHECKOUT = {"type": "function", "function": {"name": "go_to_checkout", "description": "Open the checkout."}}
TOOLS: Sequence[Mapping[str, object]] = (SEARCH, ADD_TO_CART, CHECKOUT)


def user_message(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def build_tool_results(answer: Json, *results: object) -> dict[str, object]:
    """Return the body that hands in the results of an answer's calls to a conversation that the server keeps."""
    pairs = zip(answer["toolCalls"], results, strict=True)
    tool_results = [{"toolCallId": call["id"], "result": result} for call, result in pairs]
    return {"conversationId": answer["conversationId"], "toolResults": tool_results}


class AppClient:
    """An application that sends requests to the endpoint."""

    def __init__(self, talk: ApiClient, tools: Sequence[Mapping[str, object]] = TOOLS) -> None:
        self._talk = talk
        self.tools = tools

    def with_key(self, key: str) -> "AppClient":
        return AppClient(self._talk.with_key(key), self.tools)

    async def post(self, body: Mapping[str, object], expect: int = 200, **headers: str) -> Json:
        status, answer, _ = await self._talk.send_request("POST", PATH, body, **headers)
        assert status == expect, (status, answer)
        return answer

    async def post_for_status(self, body: Mapping[str, object]) -> int:
        status, _, _ = await self._talk.send_request("POST", PATH, body)
        return status

    async def ask(self, text: str, expect: int = 200, **more: object) -> Json:
        return await self.post({"messages": [user_message(text)], "tools": self.tools, **more}, expect)

    def stream(self, body: Mapping[str, object], **headers: str) -> AsyncGenerator[tuple[str, Json], None]:
        return self._talk.stream_post(PATH, body, **headers)

    async def collect_objects(self, body: Mapping[str, object], **headers: str) -> list[Json]:
        return [event async for _, event in self.stream(body, **headers)]

    async def list_conversations(self) -> list[str]:
        """Return the ids of all conversations on the server."""
        return [card["id"] for card in (await self._talk.get("/conversations"))["conversations"]]

    async def wait_for_conversations(self, *conversations: str) -> None:
        """Wait until exactly these conversations exist: one that is not kept is deleted just after its answer."""
        while sorted(await self.list_conversations()) != sorted(conversations):
            pass  # each request lets the server's tasks continue
