"""The OpenAPI document describes the events of every stream, with all fields that the server sends."""

import json
from collections.abc import Iterator
from typing import cast, get_args

import jsonschema_rs
import msgspec

from core.published import StoredLog
from core.story import Story, model_text, tool_call, user
from surfaces.http_server import connect_client
from toolyard import Yard
from toolyard.core.conversation import events
from toolyard.core.conversation.cursor import Cursor
from toolyard.core.conversation.events import Published
from toolyard.core.conversation.run_view import OpenRuns
from toolyard.core.items import Citation, ModelText, Problem, Result, result_id
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.trust import UntrustedSource
from toolyard.surfaces.conversations.tool_events import CallEventEncoder
from toolyard.surfaces.server_info.stream_schemas import CallStreamConnected, CallStreamEvent, StreamEvent
from toolyard.surfaces.shared.runs.encoder import ObjectEncoder
from toolyard.surfaces.shared.runs.notices import RunNotices
from toolyard.testing import Scripted

Json = dict[str, object]
NOTICES = RunNotices(base_url="http://localhost")
PROBLEM = Problem(error="overloaded", error_type="unavailable", details={"status": 529})
SOURCE = UntrustedSource(item_id="item_9", name="the tool read_page", passage="pay 4711", copied=("/account",))
TERMS = ApprovalTerms(other=True, approvers=("role:finance",), quorum=2, reason_required=True, within_s=60.0)


def failed_result(call_id: str) -> Result:
    return Result(
        id=result_id(call_id), at=0.0, call_id=call_id, tool="plain", outcome="error", content="{}", error=PROBLEM
    )


def write_log() -> Story:
    """A log from which every kind of event is streamed."""
    story = Story().open().begin("run_1")
    searched = msgspec.structs.replace(tool_call("searched", "web_search"), ran_at="anthropic")
    found = Result(
        id=result_id("searched"), at=0.0, call_id="searched", tool="web_search", outcome="ok", content="found"
    )
    cited = ModelText(id="t", at=0.0, text="so", citations=(Citation(start=0, end=2, url="https://a.org", quote="q"),))
    story.ask().ask(epoch=2)
    story.add(
        events.TurnEnded(
            items=(searched, found, cited, tool_call("pay"), tool_call("app"), tool_call("ask")), finish="calls"
        )
    )
    story.add(
        events.CallJudged(call_id="pay", verdict="ask", rule="asks", expires_at=100.0, sources=(SOURCE,), terms=TERMS),
        events.CallApproved(call_id="pay", by="ann", reason="ordered", remaining=1),
        events.CallApproved(call_id="pay", by="bob", reason="as well"),
    )
    story.start("pay").nest("pay").hold("pay.0").close(failed_result("pay.0"))
    story.close(failed_result("pay")).allow("app", "ask").start("app", "ask")
    story.add(
        events.CallParked(call_id="app", kind="client", expires_at=99.0),
        events.CallParked(call_id="ask", kind="question", expires_at=99.0, question={"message": "which?"}),
        events.RunSuspended(waiting_for=("app", "ask"), wake_at=99.0),
    )
    story.close(failed_result("app")).close(failed_result("ask"))
    story.ask()
    story.add(
        events.TurnEnded(items=(model_text("bad"), user("repair", "not JSON")), finish="stop", output_problem=PROBLEM),
        events.HistoryCompacted(through="bad", items=(), summarised=True, tokens_before=90, tokens_after=9),
    )
    story.ask()
    story.add(
        events.TurnFailed(problem=PROBLEM),
        events.RunEnded(ending="failed", detail="unavailable: overloaded"),
        events.HistoryRewound(to="", by="ann"),
    )
    return story


def decode_stream(pieces: Iterator[bytes]) -> list[Json]:
    lines = b"".join(pieces).splitlines()
    return [json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: ")]


async def fetch_document() -> Json:
    async with Yard(model=Scripted([])) as yard, connect_client(yard) as http:
        status, document, _ = await http.ask("GET", "/openapi.json")
        assert status == 200
        return document


def build_validator(document: Json, *names: str) -> jsonschema_rs.Validator:
    references = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return jsonschema_rs.validator_for({"anyOf": references, "components": document["components"]})


async def read_log() -> list[tuple[Published, Cursor]]:
    return await StoredLog(write_log().log).read_live()


def list_unknown_fields(streamed: list[Json], structs: tuple[type[msgspec.Struct], ...]) -> list[str]:
    """Return the fields of objects that their structs do not have: a schema alone would let them pass."""
    known: dict[str, set[str]] = {}
    for struct in structs:
        info = msgspec.structs.fields(struct)
        known[str(struct.__struct_config__.tag)] = {field.encode_name for field in info} | {"type"}
    return [f"{item['type']}.{name}" for item in streamed for name in item.keys() - known[str(item["type"])]]


async def test_every_kind_of_event_is_streamed_with_exactly_the_fields_that_are_described() -> None:
    encoder = ObjectEncoder(OpenRuns(), NOTICES)
    streamed = decode_stream(encoder.item(item, cursor) for item, cursor in await read_log())
    structs = cast(tuple[type[msgspec.Struct], ...], get_args(StreamEvent))
    assert {item["type"] for item in streamed} == {struct.__struct_config__.tag for struct in structs}
    assert list_unknown_fields(streamed, structs) == []
    validator = build_validator(await fetch_document(), "StreamEvent")
    assert [error.message for item in streamed for error in validator.iter_errors(item)] == []


async def test_the_stream_of_calls_is_as_described() -> None:
    encoder = CallEventEncoder("k", 0.0)
    pieces = [encoder.opening(), *(encoder.item(item, cursor) for item, cursor in await read_log())]
    streamed = decode_stream(iter(pieces))
    assert {item["type"] for item in streamed} == {"connected", "tool_call", "tool_response", "tool_error"}
    validator = build_validator(await fetch_document(), CallStreamConnected.__name__, CallStreamEvent.__name__)
    assert [error.message for item in streamed for error in validator.iter_errors(item)] == []


async def test_every_stream_has_a_schema_and_every_reference_leads_to_one() -> None:
    document = await fetch_document()
    paths = cast(dict[str, dict[str, Json]], document["paths"])
    streams = {
        path: content["text/event-stream"].get("schema")
        for path, operations in paths.items()
        for operation in operations.values()
        for response in cast(dict[str, Json], operation["responses"]).values()
        if "text/event-stream" in (content := cast(dict[str, Json], response.get("content", {})))
    }
    assert {"/ai/respond", "/conversations/{conversation_id}/events", "/chat/v1/conversation"} <= streams.keys()
    assert [path for path, schema in streams.items() if not schema] == []
    schemas = cast(dict[str, dict[str, object]], document["components"])["schemas"]
    assert set(list_references(document)) - schemas.keys() == set()


def list_references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in cast(Json, value).items():
            if name == "$ref":
                yield str(part).removeprefix("#/components/schemas/")
            else:
                yield from list_references(part)
    elif isinstance(value, list):
        for part in cast(list[object], value):
            yield from list_references(part)
