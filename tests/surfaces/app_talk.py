"""What the tests of the app's endpoint share: its tools, and requests as an application makes them."""

from collections.abc import AsyncGenerator, Mapping, Sequence

from surfaces.talk import Json, Talk

PATH = "/chat/v1/conversation"
SEARCH = {
    "name": "search_products",
    "description": "Find products.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}
ADD = {
    "name": "add_to_cart",
    "description": "Put a product into the cart.",
    "inputSchema": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
}
GO = {"type": "function", "function": {"name": "go_to_checkout", "description": "Open the checkout."}}
TOOLS: Sequence[Mapping[str, object]] = (SEARCH, ADD, GO)


def user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def ran(called: Json, *results: object) -> dict[str, object]:
    """The results of an answer's calls, as the stateful way posts them."""
    pairs = zip(called["toolCalls"], results, strict=True)
    given = [{"toolCallId": call["id"], "result": result} for call, result in pairs]
    return {"conversationId": called["conversationId"], "toolResults": given}


class App:
    """An application that talks to the server."""

    def __init__(self, talk: Talk, tools: Sequence[Mapping[str, object]] = TOOLS) -> None:
        self._talk = talk
        self._tools = tools

    def by(self, key: str) -> "App":
        return App(self._talk.by(key), self._tools)

    async def post(self, body: Mapping[str, object], expect: int = 200, **headers: str) -> Json:
        status, told, _ = await self._talk.answer("POST", PATH, body, **headers)
        assert status == expect, (status, told)
        return told

    async def status(self, body: Mapping[str, object]) -> int:
        status, _, _ = await self._talk.answer("POST", PATH, body)
        return status

    async def ask(self, text: str, expect: int = 200, **more: object) -> Json:
        return await self.post({"messages": [user(text)], "tools": self._tools, **more}, expect)

    def stream(self, body: Mapping[str, object], **headers: str) -> AsyncGenerator[tuple[str, Json], None]:
        return self._talk.post_stream(PATH, body, **headers)

    async def objects(self, body: Mapping[str, object], **headers: str) -> list[Json]:
        return [one async for _, one in self.stream(body, **headers)]

    async def kept(self) -> list[str]:
        """The conversations that there are."""
        return [one["id"] for one in (await self._talk.get("/conversations"))["conversations"]]

    async def keeps(self, *conversations: str) -> None:
        """Wait until there are these and no other: one that is not kept goes a moment after its answer."""
        while sorted(await self.kept()) != sorted(conversations):
            pass  # each look lets the server go on
