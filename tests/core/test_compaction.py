"""When room is made in a history, what goes and what stays: never a call without its result."""

from itertools import pairwise

from msgspec.structs import replace

from core.story import Story, model_text, ok_result, tool_call, user
from toolyard.core.conversation.context.compaction_plan import Compact
from toolyard.core.conversation.context.token_estimate import estimate_tokens
from toolyard.core.conversation.context.window import find_blocks, stub_result
from toolyard.core.conversation.events import (
    ConversationChanged,
    HistoryCompacted,
    MessageRemoved,
    RunEnded,
    RunStarted,
    TurnFailed,
)
from toolyard.core.conversation.history import History, count_messages, find_faults
from toolyard.core.conversation.plan import AskModel, End, Step, plan
from toolyard.core.conversation.settings import Settings
from toolyard.core.items import Item, Problem, Reasoning, Result, SystemText, Usage
from toolyard.core.settings.limits import Limits

WINDOW = 10_000
TOO_LONG = Problem(error="prompt is too long", error_type="too_large")


def words(tokens: int) -> str:
    return "word" * tokens


def result(call_id: str, tokens: int) -> Result:
    return replace(ok_result(call_id), content=words(tokens))


def content(item: Item) -> str:
    assert isinstance(item, Result)
    return item.content


def begin_run(run: str, window: int = WINDOW, settings: Settings | None = None, *items: Item) -> Story:
    story = Story().open()
    if settings:
        story.add(ConversationChanged(settings=settings))
    story.queue(run, *items)
    story.add(RunStarted(model="m", limits=Limits(), window=window))
    return story


def add_tool_turns(story: Story, count: int, tokens: int, first: int = 0) -> Story:
    """Tool turns, each with a result of a size."""
    for number in range(first, first + count):
        story.turn(tool_call(f"c{number}")).allow(f"c{number}").start(f"c{number}")
        story.close(result(f"c{number}", tokens))
    return story


def next_step(story: Story) -> Step:
    return plan(story.state, 1, 0.0)


def build_compacted(step: Step) -> HistoryCompacted:
    assert isinstance(step, Compact)
    return HistoryCompacted(through=step.through, dropped=step.dropped, items=step.kept_items)


def test_the_model_is_asked_as_long_as_there_is_room() -> None:
    assert next_step(add_tool_turns(begin_run("r"), 7, 1000)) == AskModel()
    assert isinstance(next_step(add_tool_turns(begin_run("r"), 9, 1000)), Compact)
    assert next_step(add_tool_turns(begin_run("r", 0), 40, 1000)) == AskModel()


def test_results_go_first_and_the_newest_stay() -> None:
    story = add_tool_turns(begin_run("r"), 9, 1000)
    step = next_step(story)
    assert isinstance(step, Compact) and not step.summarise
    assert step.dropped == tuple(f"c{n}.result" for n in range(8))
    state = story.add(build_compacted(step))
    assert [item.id for item in state.history] == [item.id for item in state.full_history]
    assert content(state.history[2]) == stub_result(result("c0", 1000)).content
    assert content(state.full_history[2]) == words(1000)
    assert state.history[-1] == state.full_history[-1] == result("c8", 1000)
    assert state.tokens < WINDOW / 2
    assert next_step(story) == AskModel()


def test_where_that_is_not_enough_old_turns_are_summarised_but_the_request_and_the_instructions_stay() -> None:
    rules = SystemText(id="rules", at=0.0, text="Be brief.")
    story = begin_run("r", WINDOW, None, rules, user("question"))
    for number in range(9):
        story.turn(model_text(f"t{number}", words(900)), tool_call(f"c{number}")).allow(f"c{number}").start(
            f"c{number}"
        )
        story.close(result(f"c{number}", 50))
    step = next_step(story)
    assert isinstance(step, Compact) and step.summarise and not step.dropped
    assert [item.id for item in step.kept_items] == ["rules", "question"]
    state = story.add(build_compacted(step))
    assert not find_faults(state.history)
    assert [item.id for item in state.history][:3] == ["rules", "question", "t7"]
    assert len(state.full_history) == 2 + 3 * 9


def test_room_is_made_in_large_pieces() -> None:
    story, made_room = begin_run("r"), list[int]()
    for number in range(60):
        step = next_step(story)
        if isinstance(step, Compact):
            made_room.append(number)
            story.add(build_compacted(step))
        add_tool_turns(story, 1, 500, first=number)
    gaps = [later - sooner for sooner, later in pairwise(made_room)]
    assert made_room and min(gaps) >= 4
    assert len(story.state.full_history) == 1 + 2 * 60


def test_what_the_provider_counted_is_believed_over_the_estimate() -> None:
    story = begin_run("r").turn(tool_call("a"), usage=Usage(input_tokens=4_900, output_tokens=10)).allow("a").start("a")
    story.close(result("a", 3000))
    assert story.state.tokens == 4_910 + estimate_tokens(result("a", 3000))
    assert next_step(story) == AskModel()
    story.turn(tool_call("b"), usage=Usage(input_tokens=8_000, output_tokens=10)).allow("b").start("b")
    assert isinstance(next_step(story.close(result("b", 50))), Compact)


def test_where_the_prompt_and_the_tools_fill_the_window_nothing_is_left_out_for_it() -> None:
    story = add_tool_turns(begin_run("r"), 9, 90).turn(
        tool_call("a"), usage=Usage(input_tokens=9_000, output_tokens=10)
    )
    story.allow("a").start("a").close(result("a", 90))
    assert story.state.tokens > 8_000
    assert next_step(story) == AskModel()


def test_a_turn_in_which_the_provider_ran_tools_is_several_requests_and_is_not_believed() -> None:
    provider_items = replace(tool_call("p"), ran_at="acme"), replace(ok_result("p"), ran_at="acme")
    story = begin_run("r").turn(*provider_items, model_text("t"), usage=Usage(input_tokens=50_000, output_tokens=10))
    assert story.state.tokens == story.state.history.tokens


def test_a_window_of_messages_holds_and_a_request_begins_with_its_user() -> None:
    story = begin_run("r0", 0, Settings(max_messages=6))
    story.turn(model_text("t0")).add(RunEnded(ending="done"))
    for number in range(1, 20):
        story.begin(f"r{number}")
        step = next_step(story)
        if isinstance(step, Compact):
            assert not step.summarise and not step.tell_model
            story.add(build_compacted(step))
        assert story.state.history.messages <= 6
        assert story.state.history[0].id.endswith(".in")
        story.turn(model_text(f"t{number}")).add(RunEnded(ending="done"))
    assert story.state.full_history.messages == 40


def test_a_window_of_tokens_holds() -> None:
    story = begin_run("r0", 0, Settings(max_tokens=1000))
    story.turn(model_text("t0", words(100))).add(RunEnded(ending="done"))
    for number in range(1, 30):
        story.begin(f"r{number}")
        if isinstance(step := next_step(story), Compact):
            story.add(build_compacted(step))
        assert story.state.history.tokens <= 1000
        story.turn(model_text(f"t{number}", words(100))).add(RunEnded(ending="done"))


def test_the_newest_turn_stays_whole_however_small_the_window() -> None:
    story = begin_run("r", 0, Settings(max_messages=2)).turn(*(tool_call(f"c{n}") for n in range(5)))
    for number in range(5):
        story.allow(f"c{number}").start(f"c{number}").close(ok_result(f"c{number}"))
    assert next_step(story) == AskModel()
    add_tool_turns(story, 1, 10, first=9)
    story.add(build_compacted(next_step(story)))
    assert [item.id for item in story.state.history] == ["r.in", "c9", "c9.result"]
    assert next_step(story) == AskModel()


def test_a_message_that_no_model_takes_ends_the_run_with_a_word_of_what_to_do() -> None:
    step = next_step(begin_run("r", WINDOW, None, user("huge", words(20_000))))
    assert isinstance(step, End) and step.ending == "failed"
    assert step.detail.startswith("too_large: ") and "20,004" in step.detail and "send less" in step.detail


def test_a_message_that_no_model_takes_is_left_out_later_without_asking_for_a_summary() -> None:
    story = begin_run("r", WINDOW, None, user("huge", words(20_000)))
    story.add(RunEnded(ending="failed"))
    story.queue("next").add(RunStarted(model="m", limits=Limits(), window=WINDOW))
    step = next_step(story)
    assert isinstance(step, Compact) and step.through == "huge" and not step.summarise and step.tell_model
    story.add(build_compacted(step))
    assert next_step(story) == AskModel()


def test_a_request_that_the_provider_finds_too_long_is_made_shorter_and_sent_again() -> None:
    story = add_tool_turns(begin_run("r", 0), 8, 1000).ask()
    story.add(TurnFailed(problem=TOO_LONG))
    step = next_step(story)
    assert isinstance(step, Compact)
    story.add(build_compacted(step))
    assert next_step(story) == AskModel()
    story.ask().add(TurnFailed(problem=TOO_LONG))
    for _ in range(9):
        if not isinstance(step := next_step(story), Compact):
            break
        story.add(build_compacted(step))
        story.ask().add(TurnFailed(problem=TOO_LONG))
    assert next_step(story) == End("failed", "too_large: prompt is too long")


def test_another_failure_is_not_tried_again_because_the_window_is_full() -> None:
    story = add_tool_turns(begin_run("r"), 8, 1000)
    story.add(build_compacted(next_step(story)) if isinstance(next_step(story), Compact) else RunEnded(ending="done"))
    story.ask().add(TurnFailed(problem=Problem(error="down", error_type="unavailable")))
    assert next_step(story) == End("failed", "unavailable: down")


def test_where_requests_carry_their_history_no_summary_is_paid_for() -> None:
    story = begin_run("r", WINDOW, Settings(ephemeral=True), *(user(f"m{n}", words(1000)) for n in range(9)))
    step = next_step(story)
    assert isinstance(step, Compact) and not step.summarise and step.tell_model


def test_a_history_that_comes_again_a_little_longer_is_cut_at_the_same_place_for_a_while() -> None:
    places = list[str]()
    for count in range(18, 60):
        items = (user(f"m{n}", words(500)) for n in range(count))
        step = next_step(begin_run("r", WINDOW, Settings(ephemeral=True), *items))
        assert isinstance(step, Compact)
        places.append(step.through)
    moved = sum(before != now for before, now in pairwise(places))
    assert 10 < moved < 25


def test_removing_a_message_that_made_room_shows_the_rest_again() -> None:
    story = add_tool_turns(begin_run("r"), 9, 1000)
    story.add(build_compacted(next_step(story)))
    story.turn(model_text("t")).add(RunEnded(ending="done"))
    state = story.add(MessageRemoved(ids=frozenset({"c0", "c0.result"})))
    assert (
        state.history == state.full_history == History(item for item in state.history if not item.id.startswith("c0"))
    )
    assert content(state.history[2]) == words(1000)


def test_a_search_that_the_provider_has_not_finished_stays_with_what_it_comes_to() -> None:
    paused, late = replace(tool_call("p"), ran_at="acme"), replace(ok_result("p"), ran_at="acme")
    assert find_blocks(
        [user("u"), paused, model_text("t"), late, model_text("s"), user("v"), tool_call("a"), ok_result("a")]
    ) == [0, 1, 5, 6]


def test_messages_are_counted_as_they_are_told() -> None:
    thought = Reasoning(id="x", at=0.0, text="hm")
    items: list[Item] = [
        user("u"),
        thought,
        model_text("t"),
        tool_call("a"),
        thought,
        tool_call("b"),
        ok_result("a"),
        ok_result("b"),
        model_text("s"),
    ]
    assert count_messages(items) == 5
    grown = History()
    for item in items:
        grown = grown.plus([item])
    assert (grown.messages, grown.tokens) == (5, History(items).tokens)


def test_a_result_that_was_kept_whole_can_still_be_read() -> None:
    assert 'read_result(handle="h")' in stub_result(replace(ok_result("a"), handle="h")).content
