"""Servers that misbehave: each harms itself at most."""

import asyncio
import logging
from pathlib import Path

import pytest

from support import condition, events_of, in_yard, problem, result
from toolyard import Caller, Yard
from toolyard.core.tools import NAME
from venues.mcp.plain import Plain

MB = 1024 * 1024


def test_what_is_no_message_goes_to_the_log_and_does_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = Plain(tmp_path, "garbage", trust=True)

    async def test(yard: Yard) -> None:
        assert result(await events_of(yard.call("add", {}))).outcome == "ok"

    with caplog.at_level(logging.INFO, "toolyard.mcp"):
        in_yard(test, [], servers={"noisy": plain.spec})
    said = [record.getMessage() for record in caplog.records if "no message" in record.getMessage()]
    assert any("{not json}" in line for line in said) and all(len(line) < 1200 for line in said)
    assert len(plain.processes) == 1


def test_a_chatty_server_does_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = Plain(tmp_path, "chatty", trust=True)

    async def test(yard: Yard) -> None:
        assert result(await events_of(yard.call("add", {}))).outcome == "ok"

    with caplog.at_level(logging.INFO, "toolyard.mcp"):
        in_yard(test, [], servers={"chatty": plain.spec})
    assert 0 < sum("one word" in record.getMessage() for record in caplog.records) <= 400


def test_fifty_megabytes_are_kept_and_the_model_gets_head_and_tail(tmp_path: Path) -> None:
    plain = Plain(tmp_path, env={"BIG_BYTES": str(50 * MB)})

    async def test(yard: Yard) -> None:
        big = result(await events_of(yard.call("big", {})))
        assert big.outcome == "ok" and big.whole_bytes == 50 * MB
        assert len(big.content) < 20_000 and big.handle in big.content
        assert result(await events_of(yard.call("look", {}))).outcome == "ok"

    in_yard(test, [], servers={"big": plain.spec})
    assert len(plain.processes) == 1


def test_a_failure_with_megabytes_of_details_does_not_flood_the_model_and_the_log(tmp_path: Path) -> None:
    plain = Plain(tmp_path, trust=True, env={"BIG_BYTES": str(2 * MB)})

    async def test(yard: Yard) -> None:
        came = result(await events_of(yard.call("fails", {})))
        assert problem(came) == ("error", "too_much") and came.native
        assert len(came.content) < 50_000 and "bytes left out" in came.content, len(came.content)

    in_yard(test, [], servers={"big": plain.spec})


def test_an_answer_that_is_too_long_is_told_and_the_session_goes_on(tmp_path: Path) -> None:
    plain = Plain(tmp_path, env={"BIG_BYTES": str(70 * MB)})

    async def test(yard: Yard) -> None:
        big = result(await events_of(yard.call("big", {})))
        assert big.outcome == "error" and "longer than" in big.content
        assert result(await events_of(yard.call("look", {}))).outcome == "ok"

    in_yard(test, [], servers={"big": plain.spec})
    assert len(plain.processes) == 1


def test_odd_names_and_schemas_are_offered_in_a_form_that_every_provider_takes(tmp_path: Path) -> None:
    plain = Plain(tmp_path, "odd", trust=True)

    async def test(yard: Yard) -> None:
        offered = {tool.remote: tool for tool in yard.service.tools(Caller())}
        assert all(NAME.fullmatch(tool.name) for tool in offered.values())
        assert offered["a_b_c"].name != offered["a.b/c"].name
        for remote in ("x" * 300, "a.b/c", "a_b_c", "ünïcode"):
            done = result(await events_of(yard.call(offered[remote].name, {})))
            assert done.content.startswith(f"{remote} of process"), done
        (listed,) = [one for one in yard.servers.cards()[0].tools if one.name == "cyclic"]
        assert offered["cyclic"].parameters == listed.definition["inputSchema"]
        assert listed.definition["x-unknown"] == {"kept": True}
        tree: dict[str, object] = {"root": {"children": [{"children": []}]}}
        assert result(await events_of(yard.call("cyclic", tree))).outcome == "ok"
        wrong = result(await events_of(yard.call("cyclic", {"root": {"children": [{"children": 1}]}})))
        assert problem(wrong) == ("error", "validation_error")
        (broken,) = [one for one in yard.servers.cards()[0].tools if one.name == "no schema"]
        assert (broken.state, "no schema" in offered) == ("unusable", False)

    in_yard(test, [], servers={"odd": plain.spec})


def test_a_thousand_tools_are_listed_page_by_page(tmp_path: Path) -> None:
    plain = Plain(tmp_path, "many", trust=True)

    async def test(yard: Yard) -> None:
        assert len(yard.service.tools(Caller())) == 1009
        assert result(await events_of(yard.call("tool_999", {}))).outcome == "ok"

    in_yard(test, [], servers={"many": plain.spec})


def test_one_that_dies_in_every_call_does_not_take_the_others_along(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    bad, good = Plain(tmp_path / "bad", "dies", trust=True), Plain(tmp_path, trust=True)

    async def test(yard: Yard) -> None:
        names = {tool.server: tool.name for tool in yard.service.tools(Caller()) if tool.remote == "add"}
        for _ in range(6):
            lost, done = await asyncio.gather(
                events_of(yard.call(names["bad"], {})), events_of(yard.call(names["good"], {}))
            )
            assert result(lost).outcome in ("unknown", "error") and result(done).outcome == "ok"
        await condition(lambda: yard.servers.cards()[1].status == "failed")
        assert problem(result(await events_of(yard.call(names["bad"], {}))))[1] in ("unavailable", "unknown_tool")

    in_yard(test, [], servers={"good": good.spec, "bad": bad.spec})
    assert len(good.processes) == 1
