"""Helpers of the tests of web searches: models whose provider has native tools, and a search tool of a user."""

from collections.abc import AsyncGenerator

from toolyard import tool
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Call, Citation, ModelText, Result, result_id
from toolyard.core.ports import ModelRequest
from toolyard.core.tools.web_search_rule import NativeTools
from toolyard.testing import Script, Scripted

ALL = NativeTools(
    tools=frozenset({"web_search", "code_execution", "file_search"}),
    options=frozenset({"max_uses", "allowed_domains", "user_location"}),
)


class NativeScripted(Scripted):
    """A scripted model whose provider has native tools."""

    def __init__(self, script: Script, native: NativeTools = ALL) -> None:
        super().__init__(script)
        self.native = native


class SearchingModel:
    """A model whose provider searches once and cites the result."""

    native = ALL

    def __init__(self, url: str = "https://example.org/news", text: str = "Much is new.") -> None:
        self._url = url
        self._text = text

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        clock, at = request.clock, request.clock.now()
        call_id = clock.new_id("call")
        yield TextAppended(turn=request.turn, offset=0, text=self._text)
        call = Call(id=call_id, at=at, tool="web_search", arguments={"query": "news"}, ran_at="anthropic")
        result = Result(
            id=result_id(call_id),
            at=at,
            call_id=call_id,
            tool="web_search",
            outcome="ok",
            content=f'[{{"url":"{self._url}"}}]',
            ran_at="anthropic",
        )
        citation = Citation(start=0, end=4, url=self._url, title="News")
        answer = ModelText(id=clock.new_id("text"), at=at, text=self._text, citations=(citation,))
        yield TurnEnded(items=(call, result, answer), finish="stop")

    async def close(self) -> None:
        pass


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(name="web_search")
def local_web_search(query: str) -> str:
    """Search the web here."""
    return f"all about {query}"


def list_offered_tools(request: ModelRequest) -> list[tuple[str, str]]:
    """Return the name and the venue of each tool that a request offers to the model."""
    return [(tool.name, tool.venue) for tool in request.offer.tools]
