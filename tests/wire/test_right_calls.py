"""Right calls of tools with hard schemas run over every wire with what was written; wrong ones do not."""

import json
from collections.abc import Callable

import pytest

from toolyard import Context, Yard
from toolyard.core.conversation.events import CallEnded, RunEnded
from toolyard.core.items import Call
from toolyard.core.ports import Model
from toolyard.core.settings.limits import Budget
from toolyard.models.chat import OpenAIChat
from toolyard.models.gemini import Gemini
from toolyard.models.messages import Anthropic
from toolyard.models.responses import OpenAIResponses
from wire import gemini_bytes, responses_bytes, strict_chat, strict_dashscope, strict_gemini, strict_messages
from wire.hard_schemas import SCHEMAS
from wire.strict import StrictServer
from wire.strict_chat import StrictChat
from wire.strict_messages import StrictMessages
from wire.strict_responses import strict_responses

Json = dict[str, object]
Calls = list[tuple[str, Json]]
ALL = Budget(tools=1_000, schema_bytes=1_000_000)
RIGHT: Calls = [
    ("no_properties", {}),
    ("closed", {"a": 1}),
    ("recursive", {"root": {"name": "a", "children": [{"name": "b", "children": []}]}}),
    ("root_choice", {"b": "x"}),
    ("tuple", {"at": [1, 2.5]}),
    ("map", {"env": {"PATH": "/bin"}}),
    ("map_alone", {"PATH": "/bin"}),
    ("anything_alone", {"a": [1]}),
    ("patterns_alone", {"x-a": "b"}),
    ("choices", {"a": None, "b": "one"}),
    ("docs", {"edits": [{"oldText": "面粉", "newText": "🥛"}], "dryRun": True}),
    ("odd_keys", {"key with spaces": "a", "schlüssel": "b"}),
]
WRONG: Calls = [
    ("closed", {"a": "one"}),
    ("tuple", {"at": [1, 2, 3]}),
    ("map", {"env": {"path": "/bin"}}),
    ("map_alone", {"PATH": 1}),
    ("patterns_alone", {"a": "b"}),
]


class RecordingTool:
    """A tool of a schema, which notes what it was run with."""

    def __init__(self, name: str, ran: dict[str, Json]) -> None:
        self.name, self.description, self.parameters = name, f"Takes {name}.", SCHEMAS[name]
        self._ran = ran

    def is_enabled(self) -> bool:
        return True

    def requires_permission(self) -> bool:
        return False

    def has_permission(self, role: str) -> bool:
        return True

    async def execute(self, call: Call, context: Context) -> str:
        self._ran[call.tool] = call.arguments
        return "ok"


ServerAndModel = tuple[StrictServer, Callable[[str], Model]]


def chat(calls: Calls) -> ServerAndModel:
    server = StrictChat(strict_chat.asks(*calls), strict_chat.says("Done."))
    return server, lambda url: OpenAIChat(base_url=url, model="gpt-4o")


def qwen(calls: Calls) -> ServerAndModel:
    wire_bytes = strict_dashscope
    call_texts = [(name, json.dumps(arguments)) for name, arguments in calls]
    calls_reply = wire_bytes.asks(*((name, (text[:3], text[3:])) for name, text in call_texts))
    return wire_bytes.strict_dashscope(calls_reply, wire_bytes.says("Done.")), lambda url: OpenAIChat(
        base_url=url, model="qwen-plus", provider="dashscope"
    )


def gpt(calls: Calls) -> ServerAndModel:
    server = strict_responses(responses_bytes.asks(*calls), responses_bytes.says("Done."))
    return server, lambda url: OpenAIResponses(base_url=url, model=responses_bytes.MODEL)


def claude(calls: Calls) -> ServerAndModel:
    server = StrictMessages(strict_messages.asks(*calls), strict_messages.says("Done."))
    return server, lambda url: Anthropic(base_url=url, model="claude", api_key="k")


def google(calls: Calls) -> ServerAndModel:
    server = strict_gemini.strict_gemini(gemini_bytes.asks(*calls), gemini_bytes.says("Done."))
    return server, lambda url: Gemini(base_url=url, model=strict_gemini.MODEL)


@pytest.mark.parametrize("build", [chat, qwen, gpt, claude, google])
@pytest.mark.parametrize("calls", [RIGHT, WRONG], ids=["right", "wrong"])
async def test_right_calls_run_as_they_were_written_and_wrong_ones_do_not(
    build: Callable[[Calls], ServerAndModel], calls: Calls
) -> None:
    ran: dict[str, Json] = {}
    tools = [RecordingTool(name, ran) for name, _ in RIGHT]
    server, model = build(calls)
    async with server.serving() as url, Yard(tools=tools, model=model(url), budget=ALL) as yard:
        events = [event async for event in yard.run("go on")]
    assert server.refusals == [] and len(server.bodies) == 2
    assert isinstance(events[-1], RunEnded) and events[-1].ending == "done"
    outcomes = [event.result.outcome for event in events if isinstance(event, CallEnded)]
    assert outcomes == ["ok" if calls is RIGHT else "error"] * len(calls)
    assert ran == (dict(RIGHT) if calls is RIGHT else {})
