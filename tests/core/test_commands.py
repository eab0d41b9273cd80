"""A command is data: it can be stored and sent, is decided alike wherever it is read, and so is its answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.test_table import BUILDER_BY_SITUATION, COMMAND_BY_NAME, NOW
from toolyard.codec import decode_command, encode_command
from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import ACCEPTED, Change, CommandOutcome, Delete, describe_error
from toolyard.core.conversation.context.notes import MAX_NOTES, Note, NoteEdit
from toolyard.core.conversation.decide import decide
from toolyard.core.conversation.events import ConversationChanged
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.conversation.state import State
from toolyard.core.errors import (
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    RequestRepeated,
    StoreDown,
    ToolyardError,
    Unavailable,
)
from toolyard.core.settings.limits import Limits


def decide_or_refuse(state: State, name: str, *, sent: bool) -> object:
    command = COMMAND_BY_NAME[name]
    if sent:
        command = decode_command(encode_command(command))
    assert not isinstance(command, Delete)
    try:
        return decide(state, command, NOW)
    except Refused as error:
        return str(error)


@pytest.mark.parametrize("name", COMMAND_BY_NAME)
def test_a_command_that_was_sent_is_decided_as_the_one_that_was_submitted(name: str) -> None:
    for build in BUILDER_BY_SITUATION.values():
        state = build().state
        assert decide_or_refuse(state, name, sent=True) == decide_or_refuse(state, name, sent=False)


def test_a_deletion_can_be_sent_too() -> None:
    command = Delete(by=Caller(user="ann"), correlation_id="t")
    assert decode_command(encode_command(command)) == command


@pytest.mark.parametrize(
    "error",
    [
        Refused("no"),
        RequestRepeated("again"),
        Invalid("wrong", {"field": "x"}),
        Forbidden("not you"),
        NotFound("gone"),
        Unavailable("later"),
    ],
)
def test_an_error_that_was_sent_back_is_raised_as_it_was(error: ToolyardError) -> None:
    with pytest.raises(type(error)) as raised:
        describe_error(error).raise_error()
    assert str(raised.value) == str(error)
    assert getattr(raised.value, "details", None) == getattr(error, "details", None)


def test_an_accepted_command_raises_nothing_and_an_unknown_error_is_a_failure() -> None:
    ACCEPTED.raise_error()
    with pytest.raises(Unavailable):
        CommandOutcome(error="of a later version", message="?").raise_error()


def test_the_path_of_a_store_is_not_sent() -> None:
    outcome = describe_error(StoreDown("the disk is full", address="/home/ann/toolyard.db"))
    assert (outcome.error, outcome.message) == ("store_down", "the disk is full")


def apply_all(*changes: SettingsChange) -> Settings:
    owner, settings = Caller(user="ann"), Settings()
    for change in changes:
        (event,) = decide(State(owner=owner, settings=settings), Change(by=owner, change=change), NOW)
        assert isinstance(event, ConversationChanged)
        settings = event.settings
    return settings


@given(st.permutations(range(4)))
def test_changes_of_tools_and_notes_that_cross_do_not_undo_each_other(order: list[int]) -> None:
    changes = [
        SettingsChange(disable_tool="a", available_tools=frozenset("abc")),
        SettingsChange(disable_tool="b", available_tools=frozenset("abc")),
        SettingsChange(notes={"n1": Note(name="one", text="1")}),
        SettingsChange(max_turns=3, default_limits=Limits(run_seconds=7)),
    ]
    settings = apply_all(*(changes[number] for number in order))
    assert settings.tools == frozenset("c")
    assert settings.context == {"n1": Note(name="one", text="1")}
    assert settings.limits == Limits(run_seconds=7, turns_per_request=3)


def test_a_tool_is_enabled_again_and_a_note_edited_and_removed() -> None:
    note = Note(name="x", text="{}", json=True)
    start = SettingsChange(disable_tool="a", available_tools=frozenset("ab"), notes={"n": note})
    edited = apply_all(start, SettingsChange(enable_tool="a", note_edits={"n": NoteEdit(text="plain")}))
    assert edited.tools == frozenset("ab")
    assert edited.context == {"n": Note(name="x", text="plain")}
    assert apply_all(start, SettingsChange(notes={"n": None}, note_edits={"n": NoteEdit(text="late")})).context == {}
    assert apply_all(SettingsChange(enable_tool="a")).tools is None, "a conversation without a list may use all"


def test_too_many_notes_are_refused_in_words() -> None:
    notes: dict[str, Note | None] = {f"n{number}": Note(name="n", text="") for number in range(MAX_NOTES + 1)}
    with pytest.raises(Invalid, match="at most"):
        apply_all(SettingsChange(notes=notes))
