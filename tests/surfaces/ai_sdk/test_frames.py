"""Frames that are built from single items, and what counts as an edit of arguments."""

import pytest

from surfaces.api_client import Json
from toolyard.core.conversation.events import CallParked
from toolyard.core.conversation.run_view import CallView
from toolyard.core.items import Call, FilePart, ImagePart, Problem, Result
from toolyard.surfaces.ai_sdk.frames import build_files, build_input, build_output, build_question
from toolyard.surfaces.shared.threads import find_edited_arguments

CALL = Call(id="c", at=0.0, tool="t", arguments={"a": 1})


@pytest.mark.parametrize(
    ("content", "is_client", "output"),
    [
        ('{"a": 1}', False, {"a": 1}),
        ("[1]", False, [1]),
        ("42", False, "42"),
        ("42", True, 42),
        ("{not json", False, "{not json"),
        ("[" * 5_000, True, "[" * 5_000),
    ],
)
def test_an_output_is_a_value_where_it_is_json(content: str, is_client: bool, output: Json) -> None:
    result = Result(id="r", at=0.0, call_id="c", tool="t", outcome="ok", content=content)
    (frame,) = build_output(result, is_client=is_client)
    assert (frame["type"], frame["output"]) == ("tool-output-available", output)
    assert ("providerExecuted" in frame) is not is_client


@pytest.mark.parametrize(
    ("outcome", "error_type", "kind"),
    [
        ("denied", "denied_by_user", "tool-output-denied"),
        ("denied", "permission_denied", "tool-output-error"),
        ("timeout", "timeout", "tool-output-error"),
    ],
)
def test_a_denial_of_the_user_is_not_an_error_and_that_of_a_rule_is(outcome: Json, error_type: str, kind: str) -> None:
    error = Problem(error="no", error_type=error_type)
    result = Result(id="r", at=0.0, call_id="c", tool="t", outcome=outcome, content="", error=error)
    (frame,) = build_output(result, is_client=False)
    assert (frame["type"], frame.get("errorText", "no")) == (kind, "no")


def test_arguments_that_cannot_be_read_are_an_input_error() -> None:
    call = Call(id="c", at=0.0, tool="t", arguments={}, unreadable="no JSON")
    frame = build_input(call, call.arguments, is_client=False)
    assert (frame["type"], frame["errorText"]) == ("tool-input-error", "no JSON")


def test_files_of_a_result_have_their_media_types() -> None:
    parts = (
        ImagePart(url="data:image/png;base64,AA=="),
        ImagePart(url="https://x.example/a.jpg?size=1"),
        ImagePart(url="https://x.example/a"),
        FilePart(url="https://x.example/1", name="report.pdf"),
        FilePart(url="https://x.example/1"),
    )
    result = Result(id="r", at=0.0, call_id="c", tool="t", outcome="ok", content="", parts=parts)
    assert [frame["mediaType"] for frame in build_files(result)] == [
        "image/png",
        "image/jpeg",
        "image/*",
        "application/pdf",
        "application/octet-stream",
    ]


def test_a_question_is_a_part_that_tells_where_to_answer() -> None:
    question: Json = {"message": "Which size?"}
    parked = CallParked(call_id="c", kind="question", expires_at=9.0, question=question)
    waiting = build_question(CallView(call=CALL, phase="parked", parked=parked), "thread_1")
    answered = build_question(CallView(call=CALL, phase="allowed", parked=parked), "thread_1")
    data: Json = waiting["data"]
    assert (data["question"], data["conversationId"], data["isAnswered"]) == (question, "thread_1", False)
    assert answered["id"] == waiting["id"]


BIG = 2**60 + 1
ROUNDED = 2**60
"""What a browser makes of it."""


@pytest.mark.parametrize(
    ("original", "received", "edited"),
    [
        ({"a": 1}, {"a": 1.0}, None),
        ({"a": BIG}, {"a": ROUNDED}, None),
        ({"a": 10**400}, {"a": 10**400}, None),
        ({"a": True}, {"a": 1}, {"a": 1}),
        ({"a": BIG, "b": "x"}, {"a": ROUNDED, "b": "y"}, {"a": BIG, "b": "y"}),
        ({"a": [BIG, {"b": BIG}]}, {"a": [ROUNDED, {"b": ROUNDED}, 3]}, {"a": [BIG, {"b": BIG}, 3]}),
        ({"a": 1, "b": 2}, {"a": 1}, {"a": 1}),
        ({}, {"a": None}, {"a": None}),
        ({"a": {"b": 1}}, {"a": {"b": 1}}, None),
    ],
)
def test_only_what_a_person_has_changed_counts_as_edited(original: Json, received: Json, edited: Json) -> None:
    assert find_edited_arguments(original, received) == edited
