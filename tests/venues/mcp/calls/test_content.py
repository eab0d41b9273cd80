"""Every kind of content is kept, and told to the model in words."""

import base64
import json
from pathlib import Path

import pytest

from real_servers import build_npm_server
from support import collect_events, get_result, open_yard
from toolyard.core.items import FilePart, ImagePart
from toolyard.core.ports import Failure, Value
from toolyard.venues.mcp.calls.content import parse_call_result
from venues.mcp.plain import PlainServer

Json = dict[str, object]
DATA = base64.b64encode(b"12345").decode()


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "text", "text": "hello"}, "hello"),
        ({"type": "image", "data": DATA, "mimeType": "image/png"}, "[image: image/png, 5 bytes]"),
        ({"type": "audio", "data": DATA, "mimeType": "audio/wav"}, "[audio: audio/wav, 5 bytes]"),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "the first"},
            "[resource file:///a: a; the first]",
        ),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "milk"}}, "[resource file:///a]\nmilk"),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "blob": DATA, "mimeType": "x/y"}},
            "[resource file:///a: x/y, 5 bytes]",
        ),
        ({"type": "hologram", "depth": 3}, '{"type":"hologram","depth":3}'),
    ],
)
def test_each_kind_is_told_and_the_whole_is_kept(block: dict[str, object], expected: str) -> None:
    raw: dict[str, object] = {"content": [block]}
    answer = parse_call_result(raw)
    assert isinstance(answer, Value) and answer.value == expected
    assert answer.native == (b"" if block["type"] == "text" else json.dumps(raw, separators=(",", ":")).encode())


def test_what_is_no_text_comes_along_for_those_who_can_look_at_it() -> None:
    image = {"type": "image", "data": DATA, "mimeType": "image/png"}
    answer = parse_call_result({"content": [image, {"type": "resource_link", "uri": "file:///a", "name": "a"}]})
    assert isinstance(answer, Value)
    assert answer.parts == (ImagePart(url=f"data:image/png;base64,{DATA}"), FilePart(url="file:///a", name="a"))


def test_structured_content_is_told_once() -> None:
    value = {"temperature": 21}
    repeated: Json = {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}
    alone: Json = {"content": [], "structuredContent": value}
    beside: Json = {"content": [{"type": "text", "text": "warm"}], "structuredContent": value}
    outcomes = [parse_call_result(raw) for raw in (repeated, alone, beside)]
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Value)] == [
        '{"temperature": 21}', '{"temperature":21}', 'warm\n{"temperature":21}',
    ]  # fmt: skip


@pytest.mark.parametrize("field", ["result", "content", "output"])
def test_text_repeated_in_the_only_field_of_structured_content_reaches_the_model_once(field: str) -> None:
    text = "milk\nbread"
    raw: Json = {"content": [{"type": "text", "text": text}], "structuredContent": {field: text}}
    answer = parse_call_result(raw)
    assert isinstance(answer, Value) and answer.value == text
    more: Json = {**raw, "structuredContent": {field: text, "lines": 2}}
    beside = parse_call_result(more)
    assert isinstance(beside, Value) and '"lines":2' in str(beside.value), "what the text does not say is shown"


def test_a_result_that_says_it_is_an_error_is_one() -> None:
    details = {"error_type": "out_of_stock", "item": "flour"}
    raw: Json = {"content": [{"type": "text", "text": "none left"}], "isError": True, "structuredContent": details}
    failed = parse_call_result(raw)
    assert isinstance(failed, Failure) and failed.native
    assert (failed.problem.error, failed.problem.error_type) == ("none left", "out_of_stock")
    assert failed.problem.details == details
    silent = parse_call_result({"content": [], "isError": True})
    assert isinstance(silent, Failure) and silent.problem.error_type == "execution_error" and silent.problem.error


@pytest.mark.parametrize("raw", [{}, {"content": None}, {"content": "text"}, {"content": [1, None]}])
def test_nonsense_is_an_empty_answer_and_no_failure_of_ours(raw: dict[str, object]) -> None:
    assert isinstance(parse_call_result(raw), Value)


async def test_an_image_of_a_real_server_is_kept_whole() -> None:
    async with open_yard([], servers={"everything": build_npm_server("everything", trust=True)}) as yard:
        run = yard.call("get-tiny-image", {})
        image = get_result(await collect_events(run))
        assert "[image: image/png" in image.content and isinstance(image.parts[0], ImagePart)
        stored_result = await yard.result(run.conversation, image.native)
        assert stored_result is not None and json.loads(stored_result)["content"][1]["type"] == "image"


@pytest.mark.parametrize(
    ("tool", "outcome", "expected"),
    [
        ("typed_right", ("ok", ""), '{"count":3}'),
        ("typed_wrong", ("error", "invalid_result"), 'count: "three" is not of type "integer"'),
        ("typed_missing", ("error", "invalid_result"), "it has no structuredContent"),
        ("typed_failed", ("error", "execution_error"), "there are 3"),
        ("typed_oddly", ("ok", ""), '{"count":"three"}'),
    ],
)
async def test_a_structured_result_is_held_to_what_its_tool_promised(
    tmp_path: Path, tool: str, outcome: tuple[str, str], expected: str
) -> None:
    """One that breaks its promise is an error that says that the tool has run, and has all that came."""
    async with open_yard([], servers={"plain": PlainServer(tmp_path, "typed", trust=True).spec}) as yard:
        call_result = get_result(await collect_events(yard.call(tool, {})))
        assert (call_result.outcome, call_result.error.error_type if call_result.error else "") == outcome, call_result
        assert expected in (call_result.error.error if call_result.error else call_result.content)
        assert "there are" in call_result.content
        assert ("has run" in call_result.content) is (outcome[1] == "invalid_result")
