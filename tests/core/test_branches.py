"""A rewind moves the end of the history; every branch can be returned to, and nothing is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.story import OWNER, Story, model_text, ok_result, tool_call, user
from toolyard.core.conversation.branches import MAX_BRANCHES
from toolyard.core.conversation.commands import Rewind, Start
from toolyard.core.conversation.decide import decide
from toolyard.core.conversation.events import (
    CallEnded,
    HistoryCompacted,
    HistoryRewound,
    MessageAdded,
    MessageRemoved,
    RunEnded,
)
from toolyard.core.conversation.forks import find_fork_items
from toolyard.core.conversation.history import find_faults
from toolyard.core.conversation.state import fold
from toolyard.core.errors import Refused


def list_ids(story: Story) -> list[str]:
    return [item.id for item in story.state.full_history]


def rewind(story: Story, to: str) -> None:
    story.add(*decide(story.state, Rewind(by=OWNER, to=to), 1.0), at=1.0)


def build_run(story: Story, name: str) -> Story:
    """Add a run with a question, a call with its result, and an answer."""
    story.begin(name, user(f"{name}.in")).turn(model_text(f"{name}.say"), tool_call(f"{name}.call"))
    story.allow(f"{name}.call").start(f"{name}.call")
    story.add(CallEnded(result=ok_result(f"{name}.call")))
    story.turn(model_text(f"{name}.out"))
    story.add(RunEnded(ending="done"))
    return story


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.just("add"), st.integers(min_value=0, max_value=40)), max_size=40))
def test_any_item_can_be_returned_to_by_the_path_that_led_to_it(steps: list[str | int]) -> None:
    story, paths, path = Story().open(), {"": list[str]()}, list[str]()
    for number, step in enumerate(steps):
        if step == "add":
            path = [*path, f"i{number}"]
            paths[path[-1]] = path
            story.add(MessageAdded(item=user(path[-1])))
        else:
            to = list(paths)[int(step) % len(paths)]
            rewind(story, to)
            path = paths[to]
        assert list_ids(story) == path
        reachable = {item.id for branch in story.state.branches for item in branch.history} | set(path)
        assert reachable == paths.keys() - {""}, "an item is on no branch"
        heads = [branch.head for branch in story.state.branches]
        assert len(set(heads)) == len(heads)
    assert fold(story.log) == story.state


def test_a_run_can_be_answered_again_from_its_question_or_edited_before_it() -> None:
    story = build_run(build_run(Story().open(), "r1"), "r2")
    rewind(story, "r2.in")
    assert list_ids(story)[-1] == "r2.in"
    story.add(*decide(story.state, Start(by=OWNER, run_id="r3", input=()), 1.0), run="r3")
    assert story.state.queue[0].id == "r3"
    edited = build_run(build_run(Story().open(), "r1"), "r2")
    rewind(edited, "r1.out")
    build_run(edited, "r3")
    assert list_ids(edited)[-4:] == ["r3.say", "r3.call", "r3.call.result", "r3.out"]
    assert [branch.head for branch in edited.state.branches] == ["r2.out"]
    assert not find_faults(list(edited.state.full_history))


def test_a_question_that_was_answered_by_a_call_at_once_can_be_answered_again() -> None:
    story = Story().open().begin("r1", user("r1.in")).turn(tool_call("c")).allow("c").start("c")
    story.add(CallEnded(result=ok_result("c")))
    story.turn(model_text("r1.out")).add(RunEnded(ending="done"))
    for to in ("r1.in", "c.result"):
        rewind(story, to)
        assert list_ids(story)[-1] == to


@pytest.mark.parametrize("to", ["r1.say", "r1.call", "nowhere"])
def test_a_place_inside_a_turn_or_nowhere_is_refused(to: str) -> None:
    story = build_run(Story().open(), "r1")
    with pytest.raises(Refused):
        decide(story.state, Rewind(by=OWNER, to=to), 1.0)
    with pytest.raises(Refused):
        find_fork_items(story.state, to, story.log)


def test_the_end_of_a_history_that_a_model_has_answered_is_no_question() -> None:
    with pytest.raises(Refused, match="nothing to answer"):
        decide(build_run(Story().open(), "r1").state, Start(by=OWNER, run_id="r2", input=()), 1.0)


def test_an_item_that_was_compacted_is_shown_again_when_the_history_ends_there() -> None:
    story = build_run(build_run(Story().open(), "r1"), "r2")
    story.add(HistoryCompacted(through="r1.out", items=(user("summary"),)))
    rewind(story, "r2.in")
    assert [item.id for item in story.state.history] == ["summary", "r2.in"], "the summary stands for what is before"
    rewind(story, "r1.in")
    assert [item.id for item in story.state.history] == ["r1.in"]
    rewind(story, "r2.out")
    assert list_ids(story) == [item.id for item in build_run(build_run(Story().open(), "r1"), "r2").state.history]


def test_the_last_item_that_was_compacted_is_shown_again_as_every_other_one() -> None:
    story = build_run(build_run(Story().open(), "r1"), "r2")
    story.add(HistoryCompacted(through="r2.in", items=()))
    rewind(story, "r2.in")
    assert [item.id for item in story.state.history][-1] == "r2.in"
    assert len(story.state.history) == 6


def test_going_back_step_by_step_leaves_one_branch() -> None:
    story = Story().open()
    for number in range(MAX_BRANCHES + 20):
        story.add(MessageAdded(item=user(f"i{number}")))
    for number in range(MAX_BRANCHES + 18, 0, -1):
        rewind(story, f"i{number}")
    assert [branch.head for branch in story.state.branches] == [f"i{MAX_BRANCHES + 19}"]


def test_a_branch_that_ended_with_an_open_call_of_a_client_can_be_returned_to() -> None:
    story = Story().open()
    story.add(MessageAdded(item=user("q")), MessageAdded(item=tool_call("c")))
    rewind(story, "q")
    (branch,) = story.state.branches
    rewind(story, branch.head)
    assert list_ids(story) == ["q", "c", "c.result"]


def test_a_message_that_is_removed_is_removed_from_every_branch() -> None:
    story = build_run(build_run(Story().open(), "r1"), "r2")
    rewind(story, "r1.out")
    story.add(MessageRemoved(ids=frozenset({"r1.in"})))
    rewind(story, "r2.out")
    assert "r1.in" not in list_ids(story)


def test_an_item_of_another_branch_cannot_be_sent_again() -> None:
    story = build_run(build_run(Story().open(), "r1"), "r2")
    rewind(story, "r1.out")
    with pytest.raises(Refused, match="already"):
        decide(story.state, Start(by=OWNER, run_id="r3", input=(user("r2.in"),)), 1.0)


def test_the_oldest_branch_is_dropped_when_there_are_too_many() -> None:
    story = Story().open()
    for number in range(MAX_BRANCHES + 2):
        story.add(MessageAdded(item=user(f"i{number}")), HistoryRewound(to="", by="owner"))
    heads = [branch.head for branch in story.state.branches]
    assert (len(heads), heads[0], heads[-1]) == (MAX_BRANCHES, "i2", f"i{MAX_BRANCHES + 1}")


def test_a_fork_begins_with_what_there_was_at_the_end_of_a_run_on_any_branch() -> None:
    story = build_run(build_run(Story().open(), "r1"), "r2")
    rewind(story, "r1.out")
    build_run(story, "r3")
    for run in ("r2", "r3"):
        items = [item.id for item in find_fork_items(story.state, run, story.log)]
        assert (items[5], items[-1]) == (f"{run}.in", f"{run}.out")
    assert find_fork_items(story.state, "", ()) == story.state.full_history
    story.add(MessageRemoved(ids=frozenset({"r1.in"})))
    assert "r1.in" not in {item.id for item in find_fork_items(story.state, "r2", story.log)}
    assert [item.id for item in find_fork_items(story.state, "r2.in", story.log)][-1] == "r2.in"


def test_a_fork_of_an_open_run_is_refused_unless_it_names_an_earlier_one() -> None:
    story = build_run(Story().open(), "r1").begin("r2").turn(tool_call("c"))
    for after in ("", "r2", "c"):
        with pytest.raises(Refused):
            find_fork_items(story.state, after, story.log)
    assert find_fork_items(story.state, "r1", story.log)[-1].id == "r1.out"
