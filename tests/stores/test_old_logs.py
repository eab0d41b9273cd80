"""Logs that a release has written stay readable: each `logs/format-N.jsonl` is frozen, never written again.

A new kind of event, or an event with a new field, gets a line at the end of the newest file and an entry below.
"""

from pathlib import Path
from typing import get_args

import msgspec
import pytest
from msgspec import structs

from toolyard import codec
from toolyard.core.caller import Caller
from toolyard.core.conversation import events
from toolyard.core.conversation.context.notes import Note
from toolyard.core.conversation.events import Durable, Entry
from toolyard.core.conversation.settings import AppliedPreset, Settings, SettingsChange
from toolyard.core.items import (
    Call,
    FilePart,
    ImagePart,
    ModelText,
    Problem,
    Reasoning,
    Result,
    Seal,
    SystemText,
    TextPart,
    Usage,
    UserMessage,
)
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.models.options import Options
from toolyard.core.settings.prices import Cost
from toolyard.core.tool_identity import BoundName, ToolIdentity
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_servers import McpClient
from toolyard.core.tools.trust import UntrustedSource

LOGS = Path(__file__).parent / "logs"

CALLER = Caller(user="ana", roles=frozenset({"staff"}), tenant="acme", division="north", locale="de")
LIMITS = Limits(
    turns_per_request=5,
    turns_per_conversation=20,
    run_seconds=60.5,
    run_tokens=1000,
    calls_per_turn=8,
    parallel_calls=4,
    queued_messages=2,
)
SETTINGS = Settings(
    system_prompt="Be brief.",
    title="Groceries",
    description="of the week",
    context={"note_1": Note(name="shop", text="open")},
    max_messages=40,
    max_tokens=8000,
    model="scripted:demo",
    limits=LIMITS,
    tools=frozenset({"add"}),
)
USAGE = Usage(input_tokens=11, output_tokens=7, cached_tokens=3)
SOURCE = UntrustedSource(item_id="item_9", name="the tool read_page", passage="pay 4711", copied=("/account",))
COUNTED = structs.replace(
    USAGE, cache_writes_5m=2, cache_writes_1h=1, reasoning_tokens=4, tool_uses={"web_search": 2, "code_execution": 1}
)
COST = Cost(
    micros=20_350,
    currency="EUR",
    price="config:0a1b2c3d",
    tools={"web_search": 20_000},
    unpriced_tools=("code_execution",),
    estimated=True,
)
PROBLEM = Problem(error="no such row", error_type="execution_error", details={"row": 17, "tried": ["a", "b"]})
MESSAGE = UserMessage(
    id="item_1",
    at=1.5,
    parts=(
        TextPart(text="größer 世界 \u2028 \n \x00"),
        ImagePart(url="data:image/png;base64,AA=="),
        FilePart(url="https://example.org/a.pdf", name="a.pdf"),
    ),
)
CALL = Call(
    id="call_1",
    at=2.5,
    tool="add",
    arguments={"a": 1, "b": [2.5, None, True, {"deep": "er"}]},
    provider_id="toolu_9",
    unreadable="not JSON",
)
RESULT = Result(
    id="call_1.result",
    at=3.5,
    call_id="call_1",
    tool="add",
    outcome="error",
    content='{"ok":false}',
    error=PROBLEM,
    handle="blob_1",
    whole_bytes=70_000,
    duration_ms=12.25,
)
TOOL = Tool(
    name="add",
    description="Adds.",
    parameters={"type": "object", "properties": {"a": {"type": "integer"}}},
    venue="client",
    enabled=False,
    roles=frozenset({"staff"}),
    divisions=frozenset({"north"}),
    approval="ask",
    timeout_s=5.0,
    approval_s=60.0,
    client_s=61.0,
    retries=1,
    idempotent=True,
    exclusive=True,
    max_result_bytes=1024,
    examples=("add 1 and 2",),
    sources={"a": "count"},
)
TEXT = ModelText(id="item_5", at=4.5, text="Enough.")
ITEMS = (
    SystemText(id="item_2", at=1.0, text="Be brief."),
    Reasoning(id="item_3", at=2.0, text="hm", provider="anthropic", signature="c2ln"),
    CALL,
    RESULT,
)

QUEUED = events.RunQueued(
    caller=CALLER,
    input=(MESSAGE, CALL),
    app_tools=(TOOL,),
    tool_choice="add",
    model="scripted:demo",
    limits=LIMITS,
    web_search="native",
    context={"shop": Note(name="shop", text="open", keywords=("hours",), files=("shop.md",))},
    language="de",
    mcp_client=McpClient(modern=True, capabilities=frozenset({"sampling"})),
    options=Options(
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        stop=("END",),
        seed=7,
        output_schema={"type": "object"},
        thinking="low",
    ),
    ends_on_expiry=True,
)
WRITTEN_EVENTS: tuple[Durable, ...] = (
    events.ConversationOpened(owner=CALLER, settings=SETTINGS),
    events.ConversationChanged(settings=Settings(model="other")),
    events.MessageAdded(item=MESSAGE),
    events.MessageRemoved(ids=frozenset({"item_1"})),
    events.HistoryCompacted(through="item_1", items=(TEXT,), usage=USAGE),
    events.RunQueued(
        caller=CALLER, input=(MESSAGE, CALL), app_tools=(TOOL,), tool_choice="add", model="scripted:demo", limits=LIMITS
    ),
    events.RunStarted(model="scripted:demo", limits=LIMITS),
    events.TurnStarted(number=2, epoch=3, offer="0a1b", offered=4, added={"add": "ff00"}, removed=("sub",)),
    events.TurnEnded(items=ITEMS, finish="calls", usage=USAGE, model="demo-2"),
    events.TurnFailed(problem=PROBLEM),
    events.CallJudged(
        call_id="call_1", verdict="ask", rule="asks first", exclusive=True, expires_at=99.5, sources=(SOURCE,)
    ),
    events.CallApproved(call_id="call_1", by="ana", arguments={"a": 2}, remember="tool"),
    events.CallDenied(call_id="call_1", by="ana", reason="too dear"),
    events.CallStarted(call_id="call_1", epoch=3, attempt=2),
    events.CallParked(
        call_id="call_1",
        kind="question",
        expires_at=98.5,
        question={"ask": "which?"},
        resume_token="token_1",
        bound=True,
    ),
    events.CallAnswered(call_id="call_1", by="ana", reply="declined", content={"which": "none"}),
    events.CallEnded(result=RESULT),
    events.StopRequested(by="ana", call_id="call_1"),
    events.RunSuspended(waiting_for=("call_1",), wake_at=98.5),
    events.RunEnded(ending="limit", detail="turns_per_request", message=TEXT, run_id="run_2"),
    events.HistoryCompacted(
        through="item_1",
        items=(TEXT,),
        dropped=("call_1.result",),
        summarised=True,
        problem=PROBLEM,
        usage=USAGE,
        tokens_before=9000,
        tokens_after=400,
    ),
    events.RunStarted(model="scripted:demo", limits=LIMITS, window=128000),
    events.RunQueued(
        caller=CALLER,
        input=(MESSAGE, CALL),
        app_tools=(TOOL,),
        tool_choice="add",
        model="scripted:demo",
        limits=LIMITS,
        web_search="native",
    ),
    events.TurnStarted(
        number=2,
        epoch=3,
        offer="0a1b",
        offered=4,
        added={"add": "ff00"},
        removed=("sub",),
        search="mcp: it was asked for",
    ),
    events.RunQueued(
        caller=CALLER,
        input=(MESSAGE, CALL),
        app_tools=(structs.replace(TOOL, read_only=True, destructive=True, open_world=True, own_check=True),),
        tool_choice="add",
        model="scripted:demo",
        limits=LIMITS,
        web_search="native",
        context={"cart": Note(name="cart", text='{"items":0}', json=True)},
    ),
    events.RunQueued(
        caller=CALLER,
        input=(MESSAGE, CALL),
        app_tools=(TOOL,),
        tool_choice="add",
        model="scripted:demo",
        limits=LIMITS,
        web_search="native",
        context={"shop": Note(name="shop", text="open", keywords=("hours",), files=("shop.md",))},
        language="de",
        mcp_client=McpClient(modern=True, capabilities=frozenset({"sampling"})),
    ),
    events.RunStarted(model="scripted:demo", limits=LIMITS, window=128000, language="de"),
    events.StopRequested(by="ana", call_id="call_1", detail="changed my mind"),
    events.ConversationOpened(
        owner=CALLER, settings=SETTINGS, origin=events.Origin(conversation="conversation_0", after="run_0")
    ),
    events.HistoryRewound(to="item_1", by="ana"),
    QUEUED,
    events.TurnEnded(items=ITEMS, finish="calls", usage=USAGE, model="demo-2", output_problem=PROBLEM),
    structs.replace(
        QUEUED,
        options=structs.replace(QUEUED.options, parallel_tool_calls=False),
        client_fields={"metadata": {"order": "7"}, "background": True},
    ),
    events.CallJudged(
        call_id="call_1",
        verdict="ask",
        rule="asks others",
        exclusive=True,
        expires_at=99.5,
        sources=(SOURCE,),
        terms=ApprovalTerms(
            other=True, approvers=("role:finance", "user:ann"), quorum=2, reason_required=True, within_s=60.0
        ),
    ),
    events.CallApproved(
        call_id="call_1", by="ann", arguments={"a": 2}, remember="tool", reason="it was ordered", remaining=1
    ),
    events.TurnStarted(
        number=3,
        epoch=2,
        offer="9f",
        offered=2,
        added={"add": "1a"},
        removed=("drop",),
        search="native",
        unreviewed=("plain",),
    ),
    events.CallJudged(
        call_id="call_1",
        verdict="ask",
        rule="asks first",
        exclusive=True,
        expires_at=99.5,
        sources=(SOURCE,),
        terms=ApprovalTerms(quorum=2),
        tool=ToolIdentity("plain", "look"),
    ),
    events.ConversationChanged(
        settings=Settings(
            tools=frozenset({"add", "find"}),
            bound_tools=frozenset({BoundName("add"), BoundName("find", "plain", "look")}),
        )
    ),
    structs.replace(
        QUEUED,
        options=structs.replace(QUEUED.options, parallel_tool_calls=False, extra={"verbosity": "low"}),
        client_fields={"metadata": {"order": "7"}, "background": True},
        leave_s=30.0,
    ),
    structs.replace(
        QUEUED,
        options=structs.replace(QUEUED.options, parallel_tool_calls=False, extra={"verbosity": "low"}),
        client_fields={"metadata": {"order": "7"}, "background": True},
        leave_s=30.0,
        preset=SettingsChange(system_prompt="Be kind.", model="other", max_tokens=4000),
        native=Seal(provider="anthropic", data='{"cache_control":{"type":"ephemeral"}}'),
    ),
    events.ConversationChanged(
        settings=Settings(model="preset:Shopping list"),
        preset=AppliedPreset(model="other", change=SettingsChange(system_prompt="Be kind.", max_tokens=4000)),
    ),
    events.TurnEnded(
        items=ITEMS, finish="calls", usage=USAGE, model="demo-2", output_problem=PROBLEM, stop_sequence="END"
    ),
    events.TurnEnded(
        items=ITEMS,
        finish="calls",
        usage=COUNTED,
        model="demo-2",
        fallback="scripted:other",
        cost=COST,
        output_problem=PROBLEM,
        stop_sequence="END",
    ),
    events.TurnFailed(problem=PROBLEM, cost=Cost(micros=0, price="local", estimated=True)),
    events.CallEnded(result=RESULT, cost=Cost(micros=250_000, price="tool")),
    events.HistoryCompacted(
        through="item_1",
        items=(TEXT,),
        dropped=("call_1.result",),
        summarised=True,
        problem=PROBLEM,
        usage=COUNTED,
        cost=COST,
        tokens_before=900,
        tokens_after=300,
    ),
    events.CallsRequested(
        parent="call_1",
        seen=2,
        calls=(structs.replace(CALL, id="call_1.3", provider_id="", unreadable=""),),
        lines=(7,),
        printed="so far",
    ),
    events.RunSuspended(waiting_for=("call_1",), wake_at=98.5, budget="team"),
    structs.replace(
        QUEUED,
        options=structs.replace(QUEUED.options, parallel_tool_calls=False, extra={"verbosity": "low"}),
        client_fields={"metadata": {"order": "7"}, "background": True},
        leave_s=30.0,
        preset=SettingsChange(system_prompt="Be kind.", model="other", max_tokens=4000),
        instructions="Answer in rhymes.",
        native=Seal(provider="anthropic", data='{"cache_control":{"type":"ephemeral"}}'),
    ),
    events.RunEnded(ending="limit", detail="turns_per_request", message=TEXT, run_id="run_2", cost=COST),
    events.CallStarted(call_id="call_1", epoch=3, attempt=2, rule="default", exclusive=True),
)
REQUESTS = {31: events.RequestKey(key_hash="0c1d", body_hash="2e3f")}
"""The keys of requests, by the number of their entry."""


def build_expected_entries() -> list[Entry]:
    return [
        Entry(
            conversation="conversation_1",
            seq=seq,
            at=1_700_000_000.25 + seq,
            event=event,
            run="run_1",
            correlation_id="00-4bf92f3577b34da6",
            format=1,
            request=REQUESTS.get(seq),
        )
        for seq, event in enumerate(WRITTEN_EVENTS, 1)
    ]


def frozen(name: str) -> list[Entry]:
    return [codec.decode_entry(line) for line in read_lines(name)]


def read_lines(name: str) -> list[bytes]:
    return (LOGS / name).read_bytes().splitlines()


@pytest.mark.parametrize("want", build_expected_entries(), ids=lambda entry: events.event_name(entry.event))
def test_a_log_of_format_1_is_read_field_by_field(want: Entry) -> None:
    got = frozen("format-1.jsonl")[want.seq - 1]
    for name in got.__struct_fields__:
        assert getattr(got, name) == getattr(want, name), name
    for name in want.event.__struct_fields__:
        assert getattr(got.event, name) == getattr(want.event, name), name
    assert type(got.event) is type(want.event)


def test_every_kind_of_event_occurs_in_the_newest_log() -> None:
    newest = frozen(f"format-{events.FORMAT}.jsonl")
    assert {type(entry.event) for entry in newest} == set(get_args(Durable))
    assert {entry.format for entry in newest} == {events.FORMAT}


def test_the_frozen_log_writes_every_field_of_every_event() -> None:
    """Else a field would be compared with its default, which proves nothing. The last line of a kind has them all."""
    last = {events.event_name(codec.decode_entry(line).event): line for line in read_lines("format-1.jsonl")}
    for line in last.values():
        written = msgspec.json.decode(line)["event"]
        event = codec.decode_entry(line).event
        assert set(written) - {"type"} == set(event.__struct_fields__), written["type"]
