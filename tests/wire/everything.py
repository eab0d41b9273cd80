"""A history with everything in it, and the offer that goes with it: what a body of any wire is made from in tests."""

from toolyard.core.items import (
    Call,
    FilePart,
    ImagePart,
    Item,
    ModelText,
    Reasoning,
    Result,
    Seal,
    SystemText,
    TextPart,
    UserMessage,
)
from toolyard.core.settings.web_search import UserLocation
from toolyard.core.tools.definition import ProviderOptions, Tool
from wire.local import NOW, user

ADD = Tool(name="add", description="Add.", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
WEB_SEARCH = Tool(
    name="web_search",
    venue="provider",
    options=ProviderOptions(
        max_uses=3,
        allowed_domains=("example.org",),
        user_location=UserLocation(city="Basel", country="CH", timezone="Europe/Zurich"),
    ),
)
PLAIN_SEARCH = Tool(name="web_search", venue="provider")
CODE = Tool(name="code_execution", venue="provider")
FILES = Tool(name="file_search", venue="provider", options=ProviderOptions(stores=("vs_1",)))
PARTS = (
    TextPart(text="look"),
    ImagePart(url="https://example.org/a.png"),
    ImagePart(url="data:image/png;base64,iVBORw0KGgo="),
    FilePart(url="data:application/pdf;base64,JVBERi0xLjQ=", name="a.pdf"),
    FilePart(url="https://example.org/b.pdf"),
)
HISTORY: list[Item] = [
    user("hi"),
    SystemText(id="s1", at=NOW, text="be brief"),
    UserMessage(id="u2", at=NOW, parts=PARTS),
    Reasoning(id="r1", at=NOW, text="hm", provider="openai"),
    ModelText(id="t1", at=NOW, text="I add."),
    Call(id="c1", at=NOW, tool="add", arguments={"a": 1}),
    Call(id="c2", at=NOW, tool="no such.tool", arguments={}, unreadable="cut off"),
    Result(id="c1.result", at=NOW, call_id="c1", tool="add", outcome="ok", content="3"),
    Result(id="c2.result", at=NOW, call_id="c2", tool="no such.tool", outcome="error", content="no"),
    Call(
        id="w1",
        at=NOW,
        tool="web_search",
        arguments={"query": "milk"},
        ran_at="acme",
        seal=Seal(provider="acme", data="?"),
    ),
    Result(id="w1.result", at=NOW, call_id="w1", tool="web_search", outcome="ok", content="white", ran_at="acme"),
    ModelText(id="t2", at=NOW, text="Milk is white."),
    user("thanks", "u3"),
    Call(id="c3", at=NOW, tool="add", arguments={}),
]

EMPTY_OBJECT: dict[str, object] = {"type": "object", "properties": {}}
"""The schema of an answer."""
CLOSED_OBJECT: dict[str, object] = {**EMPTY_OBJECT, "required": [], "additionalProperties": False}
"""The same, as providers that enforce it take it."""
