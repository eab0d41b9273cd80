"""The small words: who may decide, what settings change, what a tool's hash covers, what a failure reads like."""

import json

import pytest
from msgspec.structs import replace

from core.story import tool_call
from toolyard.core.caller import Caller
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.errors import ToolError
from toolyard.core.failed_results import (
    build_cancelled_result,
    build_expired_result,
    build_rule_denied_result,
    build_unknown_result,
    build_user_denied_result,
    format_problem,
)
from toolyard.core.items import FilePart, ImagePart, Problem, Result, TextPart, Usage, UserMessage
from toolyard.core.settings.limits import Limits
from toolyard.core.tool_identity import BoundName
from toolyard.core.tools.definition import ProviderOptions, Tool, hash_definition, may_use_with_key


def test_the_owner_and_the_tenant_s_approvers_may_decide_and_nobody_else() -> None:
    owner = Caller(user="ann", tenant="shop")
    assert owner.may_decide_for(owner)
    assert Caller(user="bob", tenant="shop", roles=frozenset({"approver"})).may_decide_for(owner)
    assert not Caller(user="bob", tenant="shop", roles=frozenset({"admin"})).may_decide_for(owner)
    assert not Caller(user="ann", tenant="other").may_decide_for(owner)
    assert not Caller(user="bob", tenant="other", roles=frozenset({"approver"})).may_decide_for(owner)


def test_a_change_changes_what_it_names_and_nothing_else() -> None:
    before = Settings(system_prompt="Be brief.", model="m", tools=frozenset({"a"}), limits=Limits(run_tokens=5))
    assert SettingsChange().apply_to(before) == before
    assert SettingsChange(model="n").apply_to(before) == replace(before, model="n")
    assert SettingsChange(tools=None, limits=None).apply_to(before) == replace(before, tools=None, limits=None)


def test_no_set_of_tools_means_all_and_an_empty_one_means_none() -> None:
    assert Settings().allows(Tool(name="anything"))
    assert not Settings(tools=frozenset()).allows(Tool(name="anything"))
    assert Settings(tools=frozenset({"a"})).allows(Tool(name="a"))


def test_a_tool_that_is_shown_differently_has_another_hash() -> None:
    tool = Tool(name="add", description="Adds.")
    assert hash_definition(tool) == hash_definition(replace(tool, timeout_s=1.0, roles=frozenset({"admin"})))
    assert hash_definition(tool) != hash_definition(replace(tool, description="Subtracts."))
    assert hash_definition(tool) != hash_definition(replace(tool, parameters={"type": "object"}))
    assert hash_definition(tool) != hash_definition(replace(tool, options=ProviderOptions(max_uses=1)))


def test_two_tools_without_parameters_do_not_share_a_schema_that_one_could_change() -> None:
    assert Tool(name="a").parameters is not Tool(name="b").parameters


@pytest.mark.parametrize(
    ("result", "outcome", "error_type"),
    [
        (build_rule_denied_result(tool_call("c"), "roles", 0.0), "denied", "permission_denied"),
        (build_user_denied_result(tool_call("c"), "", 0.0), "denied", "denied_by_user"),
        (
            build_expired_result(tool_call("c"), 0.0, awaiting_approval=True),
            "expired",
            "approval_expired",
        ),
        (build_expired_result(tool_call("c"), 0.0, awaiting_approval=False), "timeout", "timeout"),
        (build_cancelled_result(tool_call("c"), 0.0, may_have_run=False), "cancelled", "cancelled"),
        (build_unknown_result(tool_call("c"), 0.0), "unknown", "unknown_outcome"),
    ],
)
def test_every_outcome_that_is_not_a_value_reads_as_one_structured_error(
    result: Result, outcome: str, error_type: str
) -> None:
    assert result.outcome == outcome
    content = json.loads(result.content)
    assert content["ok"] is False
    assert content["error"]
    assert content["error_type"] == error_type
    assert content["details"] == {}
    assert (result.call_id, result.id) == ("c", "c.result")


def test_a_cancelled_call_that_had_started_owns_up_to_it() -> None:
    assert "may have taken effect" in build_cancelled_result(tool_call("c"), 0.0, may_have_run=True).content
    assert "may have" not in build_cancelled_result(tool_call("c"), 0.0, may_have_run=False).content


def test_a_call_that_only_reads_is_given_up_without_a_word_of_effects() -> None:
    assert "taken effect" in build_unknown_result(tool_call("c"), 0.0).content
    given_up = build_unknown_result(tool_call("c"), 0.0, read_only=True).content
    assert "given up" in given_up
    assert "taken effect" not in given_up


def test_an_error_in_any_script_reaches_the_model_as_it_was_written() -> None:
    problem = Problem(error="数据库连接失败", error_type="unavailable", details={"host": 'a"b'})
    content = json.loads(format_problem(problem))
    assert content == {"ok": False, "error": "数据库连接失败", "error_type": "unavailable", "details": {"host": 'a"b'}}


def test_a_tool_error_carries_its_type_and_its_own_copy_of_the_details() -> None:
    details: dict[str, object] = {"id": 7}
    error = ToolError("no such item", "not_found", details)
    details["id"] = 8
    assert (str(error), error.error_type, error.details) == ("no such item", "not_found", {"id": 7})
    assert ToolError("oh").error_type == "execution_error"


def test_the_text_of_a_message_leaves_its_images_and_files_out() -> None:
    parts = (TextPart(text="look: "), ImagePart(url="data:,"), FilePart(url="data:,"), TextPart(text="nice"))
    assert UserMessage(id="u", at=0.0, parts=parts).text == "look: nice"


def test_usage_adds_up_and_cached_tokens_are_part_of_the_input() -> None:
    first = Usage(input_tokens=10, output_tokens=2, cached_tokens=8)
    both = first.plus(Usage(input_tokens=1, output_tokens=1))
    assert (both.total, both.cached_tokens) == (14, 8)


def test_the_tools_of_a_conversation_are_those_that_their_names_meant_when_they_were_set() -> None:
    here, elsewhere = (Tool(name="find", venue="mcp", server=server, remote="look") for server in ("here", "elsewhere"))
    ours, native = Tool(name="add"), Tool(name="find", venue="provider")
    bindings = {"find": here.identity}
    settings = Settings(tools=frozenset({"find", "add"})).bind_tools(bindings.get)
    assert [settings.allows(tool) for tool in (here, elsewhere, ours, native)] == [True, False, True, True]
    renamed = replace(here, name="seek", former_names=("find",))
    assert settings.allows(renamed)
    bindings["find"] = elsewhere.identity
    changed = SettingsChange(disable_tool="add", available_tools=frozenset({"find", "add"})).bind_tools(bindings.get)
    assert changed.apply_to(settings).allows(here) and not changed.apply_to(settings).allows(elsewhere)
    assert SettingsChange(title="t").bind_tools(bindings.get).apply_to(settings).allows(here)
    enabled = SettingsChange(enable_tool="find").bind_tools(bindings.get).apply_to(settings)
    assert enabled.allows(elsewhere) and not enabled.allows(here)
    assert Settings(tools=frozenset({"find"})).allows(elsewhere), "logs of earlier versions hold names only"


def test_the_tools_of_a_run_are_only_those_that_are_still_enabled() -> None:
    here, elsewhere = (Tool(name="find", venue="mcp", server=server, remote="look") for server in ("here", "elsewhere"))
    started, current = (
        Settings(tools=frozenset({"find", "add"})).bind_tools({"find": tool.identity}.get) for tool in (here, elsewhere)
    )
    effective = started.without_tools_disabled_in(current)
    assert [effective.allows(tool) for tool in (here, elsewhere, Tool(name="add"))] == [False, False, True]
    assert started.without_tools_disabled_in(Settings()).allows(here)
    assert Settings().without_tools_disabled_in(current).allows(elsewhere)


def test_a_key_that_names_a_tool_of_a_server_is_for_no_other_of_that_name() -> None:
    here, elsewhere = (Tool(name="find", venue="mcp", server=server, remote="look") for server in ("here", "elsewhere"))
    bound = frozenset({BoundName("find", "here", "look")})
    caller = Caller(tools=frozenset({"find", "stock_*"}), bound_tools=bound)
    renamed = replace(here, name="seek", former_names=("find",))
    assert [may_use_with_key(tool, caller) for tool in (here, renamed, elsewhere)] == [True, True, False]
    assert may_use_with_key(Tool(name="stock_list"), caller) and not may_use_with_key(Tool(name="add"), caller)
    assert may_use_with_key(Tool(name="find"), caller), "a tool of no server has only its name"
    by_name = Caller(tools=frozenset({"find"}))
    assert [may_use_with_key(tool, by_name) for tool in (here, renamed, elsewhere)] == [True, True, True]
