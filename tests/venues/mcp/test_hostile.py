"""Servers that misbehave: each harms itself at most."""

import asyncio
import gzip
import logging
import os
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from support import collect_events, get_problem, get_result, open_yard, wait_until
from tcp_servers import serve_connections
from toolyard import Caller
from toolyard.core.tools.definition import NAME_PATTERN
from toolyard.venues.mcp.bounded_http import BoundedTransport
from toolyard.venues.mcp.calls.elicitation import MAX_QUESTION_BYTES, Elicitations, PendingRequest
from toolyard.venues.mcp.calls.multi_round import parse_round
from toolyard.venues.mcp.sessions.stdio import MAX_MESSAGE_BYTES, MAX_WAITING_BYTES, MessageWriter
from venues.mcp.plain import PlainServer

MB = 1024 * 1024


async def test_what_is_no_message_goes_to_the_log_and_does_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = PlainServer(tmp_path, "garbage", trust=True)
    with caplog.at_level(logging.INFO, "toolyard.mcp"):
        async with open_yard([], servers={"noisy": plain.spec}) as yard:
            assert get_result(await collect_events(yard.call("add", {}))).outcome == "ok"
    log_lines = [record.getMessage() for record in caplog.records if "other than messages" in record.getMessage()]
    assert any("{not json}" in line for line in log_lines) and all(len(line) < 1200 for line in log_lines)
    assert len(plain.processes) == 1


async def test_a_chatty_server_does_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = PlainServer(tmp_path, "chatty", trust=True)
    with caplog.at_level(logging.INFO, "toolyard.mcp"):
        async with open_yard([], servers={"chatty": plain.spec}) as yard:
            assert get_result(await collect_events(yard.call("add", {}))).outcome == "ok"
    assert 0 < sum("one word" in record.getMessage() for record in caplog.records) <= 400


async def test_fifty_megabytes_are_kept_and_the_model_gets_head_and_tail(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, env={"BIG_BYTES": str(50 * MB)})
    async with open_yard([], servers={"big": plain.spec}) as yard:
        big = get_result(await collect_events(yard.call("big", {})))
        assert big.outcome == "ok" and big.whole_bytes == 50 * MB
        assert len(big.content) < 20_000 and big.handle in big.content
        assert get_result(await collect_events(yard.call("look", {}))).outcome == "ok"
    assert len(plain.processes) == 1


async def test_a_failure_with_megabytes_of_details_does_not_flood_the_model_and_the_log(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True, env={"BIG_BYTES": str(2 * MB)})
    async with open_yard([], servers={"big": plain.spec}) as yard:
        call_result = get_result(await collect_events(yard.call("fails", {})))
        assert get_problem(call_result) == ("error", "too_much") and call_result.native
        assert len(call_result.content) < 50_000 and "bytes left out" in call_result.content, len(call_result.content)


async def test_an_answer_that_is_too_long_is_told_and_the_session_goes_on(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, env={"BIG_BYTES": str(70 * MB)})
    async with open_yard([], servers={"big": plain.spec}) as yard:
        big = get_result(await collect_events(yard.call("big", {})))
        assert big.outcome == "error" and "longer than" in big.content
        assert get_result(await collect_events(yard.call("look", {}))).outcome == "ok"
    assert len(plain.processes) == 1


async def test_odd_names_and_schemas_are_offered_in_a_form_that_every_provider_takes(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "odd", trust=True)
    async with open_yard([], servers={"odd": plain.spec}) as yard:
        offered = {tool.remote: tool for tool in yard.service.tools.list_usable(Caller())}
        assert all(NAME_PATTERN.fullmatch(tool.name) for tool in offered.values())
        assert offered["a_b_c"].name != offered["a.b/c"].name
        for remote in ("x" * 300, "a.b/c", "a_b_c", "ünïcode"):
            done = get_result(await collect_events(yard.call(offered[remote].name, {})))
            assert done.content.startswith(f"{remote} of process"), done
        (listed,) = [listed_tool for listed_tool in yard.servers.cards()[0].tools if listed_tool.name == "cyclic"]
        assert offered["cyclic"].parameters == listed.definition["inputSchema"]
        assert listed.definition["x-unknown"] == {"kept": True}
        tree: dict[str, object] = {"root": {"children": [{"children": []}]}}
        assert get_result(await collect_events(yard.call("cyclic", tree))).outcome == "ok"
        wrong = get_result(await collect_events(yard.call("cyclic", {"root": {"children": [{"children": 1}]}})))
        assert get_problem(wrong) == ("error", "validation_error")
        (broken,) = [listed_tool for listed_tool in yard.servers.cards()[0].tools if listed_tool.name == "no schema"]
        assert (broken.state, "no schema" in offered) == ("unusable", False)


async def test_a_tool_whose_schema_expands_to_too_much_is_left_out_alone_and_says_why(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "expands", trust=True)
    async with open_yard([], servers={"large": plain.spec}) as yard:
        offered = [tool.remote for tool in yard.service.tools.list_usable(Caller())]
        assert "add" in offered and "expands" not in offered
        (listed,) = [listed_tool for listed_tool in yard.servers.cards()[0].tools if listed_tool.name == "expands"]
        assert listed.state == "unusable" and "expands to more than 20,000 schemas" in listed.why
        # A result is not checked against such a schema.
        assert get_result(await collect_events(yard.call("typed_right", {}))).outcome == "ok"


async def test_a_thousand_tools_are_listed_page_by_page(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "many", trust=True)
    async with open_yard([], servers={"many": plain.spec}) as yard:
        assert len(yard.service.tools.list_usable(Caller())) == 1009
        assert get_result(await collect_events(yard.call("tool_999", {}))).outcome == "ok"


async def test_one_that_dies_in_every_call_does_not_take_the_others_along(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    bad, good = PlainServer(tmp_path / "bad", "dies", trust=True), PlainServer(tmp_path, trust=True)
    async with open_yard([], servers={"good": good.spec, "bad": bad.spec}) as yard:
        names = {tool.server: tool.name for tool in yard.service.tools.list_usable(Caller()) if tool.remote == "add"}
        for _ in range(6):
            lost, done = await asyncio.gather(
                collect_events(yard.call(names["bad"], {})), collect_events(yard.call(names["good"], {}))
            )
            assert get_result(lost).outcome in ("unknown", "error") and get_result(done).outcome == "ok"
        await wait_until(lambda: yard.servers.cards()[1].status == "failed")
        assert get_problem(get_result(await collect_events(yard.call(names["bad"], {}))))[1] in (
            "unavailable",
            "unknown_tool",
        )
    assert len(good.processes) == 1


async def test_a_listing_without_end_is_not_kept(tmp_path: Path) -> None:
    async with open_yard([], servers={"heavy": PlainServer(tmp_path, "heavy").spec}) as yard:
        await wait_until(lambda: yard.servers.cards()[0].error != "")
        (only,) = yard.servers.cards()
        assert "lists more than" in only.error and only.tools == () and "add" not in yard.tool_names


async def test_answers_to_a_child_that_asks_and_does_not_read_are_not_heaped_up() -> None:
    reading, writing = os.pipe()
    outgoing = MessageWriter(writing)
    for number in range(100):
        answer = JSONRPCResponse(jsonrpc="2.0", id=number, result={"much": "m" * 100_000})
        await outgoing.send(SessionMessage(answer))
    assert outgoing.waiting_bytes <= MAX_WAITING_BYTES + 2 * 100_000
    outgoing.stop_writing()
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("head", ["content-type: application/json", "content-encoding: gzip"])
async def test_an_answer_over_http_has_a_bound_and_is_not_unpacked(head: str) -> None:
    """A packed one of a few bytes may be as large as it likes once it is unpacked."""
    packed = "gzip" in head
    body = gzip.compress(b"m" * MB) if packed else b"m" * MB

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\nconnection: close\r\n\r\n".encode())
            for _ in range(1 if packed else MAX_MESSAGE_BYTES // MB + 1):
                writer.write(body)
                await writer.drain()

    async with (
        serve_connections(handle) as port,
        httpx2.AsyncClient(transport=BoundedTransport(public_only=False)) as client,
    ):
        with pytest.raises(httpx2.ReadError, match="compressed, or longer"):
            await client.get(f"http://127.0.0.1:{port}/")


async def test_a_second_question_of_a_call_does_not_take_the_place_of_the_first() -> None:
    questions, ticket = Elicitations(), PendingRequest("call", None)  # pyright: ignore[reportArgumentType] - no link is used
    first = asyncio.create_task(questions.elicit(None, {"message": "Who?"}, ticket))
    await asyncio.wait_for(ticket.update_event.wait(), 5)
    with pytest.raises(LookupError, match="already"):
        await questions.elicit(None, {"message": "Why?"}, ticket)
    ticket.answer({"action": "decline"})
    assert await first == {"action": "decline"}


async def test_a_question_that_is_too_long_is_refused() -> None:
    questions, ticket = Elicitations(), PendingRequest("call", None)  # pyright: ignore[reportArgumentType] - no link is used
    with pytest.raises(LookupError, match="longer than"):
        await asyncio.wait_for(questions.elicit(None, {"message": "m" * MAX_QUESTION_BYTES}, ticket), 5)
    assert ticket.question is None


def test_a_question_whose_parameters_are_none_is_left_aside() -> None:
    parsed_round = parse_round(
        {"resultType": "input_required", "inputRequests": {"a": {"method": "x", "params": "odd"}}}
    )
    assert parsed_round is not None and parsed_round.requests == {} and parsed_round.question == {}


async def test_a_listing_that_never_comes_makes_way_for_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = PlainServer(tmp_path, "stalls", trust=True, list_s=1.0)
    async with open_yard([], servers={"stalling": plain.spec}) as yard:
        await collect_events(yard.call("add", {}))
        await wait_until(lambda: plain.read_notes("stalled") == ["listing"])
        plain.notes.with_suffix(".changed").write_text("Looks elsewhere.")
        await collect_events(yard.call("add", {}))
        await wait_until(lambda: any(tool.state == "changed" for tool in yard.servers.cards()[0].tools))
    assert "could not be listed: it did not answer within 1 s" in caplog.text
    assert len(plain.processes) == 1
