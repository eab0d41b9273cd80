"""What the tests of searches share: models whose provider has tools of its own, and a search of ours."""

from collections.abc import AsyncGenerator

from toolyard import Scripted, tool
from toolyard.core.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Call, Citation, ModelText, Result, result_id
from toolyard.core.ports import ModelRequest
from toolyard.core.web_search import NativeTools
from toolyard.models.scripted import Script

ALL = NativeTools(
    tools=frozenset({"web_search", "code_execution", "file_search"}),
    options=frozenset({"max_uses", "allowed_domains", "user_location"}),
)


class Hosting(Scripted):
    """A scripted model whose provider has tools of its own."""

    def __init__(self, script: Script, native: NativeTools = ALL) -> None:
        super().__init__(script)
        self.native = native


class Searched:
    """A provider that searches once and cites what it found."""

    native = ALL

    def __init__(self, url: str = "https://example.org/news", text: str = "Much is new.") -> None:
        self._url = url
        self._text = text

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        mint, at = request.clock, request.clock.now()
        call_id = mint.new_id("call")
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
        cited = Citation(start=0, end=4, url=self._url, title="News")
        said = ModelText(id=mint.new_id("text"), at=at, text=self._text, citations=(cited,))
        yield TurnEnded(items=(call, result, said), finish="stop")

    async def close(self) -> None:
        pass


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(name="web_search")
def own_search(query: str) -> str:
    """Search the web here."""
    return f"all about {query}"


def shown(request: ModelRequest) -> list[tuple[str, str]]:
    return [(one.name, one.venue) for one in request.offer.tools]
