"""Secrets in results reach no model, stream, trace or log. Administrators can read the original."""

import logging
from pathlib import Path

import pytest

from support import collect_events, get_result, get_results, open_yard
from surfaces.api_client import ApiClient, build_key, open_api_client
from toolyard import Context, RedactRules, Tool, ToolError, tool
from toolyard.core.conversation.events import CallParked, CallProgressed, Event, RunSuspended
from toolyard.core.items import Result
from toolyard.core.ports import ModelRequest
from toolyard.engine.loop.call_attempts import MAX_PROGRESS_CHARS
from toolyard.observability.log_lines import configure_logging
from toolyard.testing import Turn, call, say
from venues.mcp.plain import PlainServer

SECRET = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz"
MARK = "[redacted: github_token]"
RULES = RedactRules(patterns=("github_token",), own={"staff_number": r"EMP-\d{6}"})
ASK_SHOPPER = Tool(name="ask_shopper", description="Ask.", venue="client")


@tool
def read_file() -> dict[str, str]:
    """Read the configuration."""
    return {"token": SECRET, "owner": "EMP-123456"}


@tool
def read_log() -> str:
    """Read a long log."""
    return "a line\n" * 5000 + f"token {SECRET}\n" + "a line\n" * 5000


@tool
def fail_with_secret() -> str:
    """Fail."""
    raise ToolError(f"{SECRET} is wrong", details={"tried": [SECRET]})


@tool
def crash_with_secret() -> str:
    """Crash."""
    raise ValueError(f"EMP-123456 sent {SECRET}")


@tool
def report_secret(context: Context) -> str:
    """Report."""
    context.progress(1, 2, f"using {SECRET}")
    return "done"


TOOLS = [read_file, read_log, fail_with_secret, crash_with_secret, report_secret]


class RecordingScript:
    """Plays a script, and keeps all that a model was shown."""

    def __init__(self, *turns: Turn) -> None:
        self._turns = list(turns)
        self.shown = ""

    def __call__(self, request: ModelRequest) -> Turn:
        self.shown += "\n".join(item.content for item in request.history if isinstance(item, Result))
        return self._turns.pop(0)


async def test_a_model_reads_what_kind_of_secret_was_there() -> None:
    script = RecordingScript(call("read_file"), say("ok"))
    async with open_yard(script, TOOLS, redact=RULES) as yard:
        result = get_result(await collect_events(yard.run("go")))
    assert script.shown == result.content == f'{{"token":"{MARK}","owner":"[redacted: staff_number]"}}'
    assert result.redacted == ("github_token", "staff_number")


async def test_without_rules_nothing_is_replaced() -> None:
    async with open_yard([call("read_file"), say("ok")], TOOLS) as yard:
        result = get_result(await collect_events(yard.run("go")))
    assert SECRET in result.content and result.redacted == ()


async def test_a_result_that_is_read_on_holds_no_secret_and_the_original_is_not_for_a_model() -> None:
    def script(request: ModelRequest) -> Turn:
        results = [item for item in request.history if isinstance(item, Result)]
        if not results:
            return call("read_log")
        if len(results) == 1:
            return call("read_result", handle=results[0].handle, pattern="token")
        if len(results) == 2:
            return call("read_result", handle=f"original.{results[0].call_id}", pattern="token")
        return say("ok")

    async with open_yard(script, TOOLS, redact=RULES) as yard:
        run = yard.run("go")
        cut, found, refused = get_results(await collect_events(run))
        whole = await yard.result(run.conversation, cut.handle)
    assert whole is not None and MARK.encode() in whole and SECRET.encode() not in whole
    assert MARK in found.content and SECRET not in found.content
    assert refused.outcome == "error"


@pytest.mark.parametrize("name", ["fail_with_secret", "crash_with_secret"])
async def test_errors_hold_no_secret(name: str) -> None:
    script = RecordingScript(call(name), say("ok"))
    async with open_yard(script, TOOLS, redact=RULES) as yard:
        result = get_result(await collect_events(yard.run("go")))
    assert MARK in script.shown and MARK in str(result.error)
    assert SECRET not in script.shown + str(result)


async def test_progress_holds_no_secret() -> None:
    async with open_yard([call("report_secret"), say("ok")], TOOLS, redact=RULES) as yard:
        events = await collect_events(yard.run("go"))
    assert [event.message for event in events if isinstance(event, CallProgressed)] == [f"using {MARK}"]


async def test_progress_is_bounded_and_no_half_of_a_secret_is_left_at_its_end() -> None:
    @tool
    def report_much(context: Context) -> str:
        """Report."""
        context.progress(1, 2, "x" * (MAX_PROGRESS_CHARS - 10) + SECRET + "y" * 10 * MAX_PROGRESS_CHARS)
        return "done"

    async with open_yard([], [report_much], redact=RULES) as yard:
        events = await collect_events(yard.call("report_much", {}))
    (message,) = [event.message for event in events if isinstance(event, CallProgressed)]
    assert len(message) == MAX_PROGRESS_CHARS and message.endswith("x" + MARK[:10])


async def test_results_of_an_application_hold_no_secret() -> None:
    script = RecordingScript(call("ask_shopper"), say("ok"))
    async with open_yard(script, redact=RULES) as yard:
        run = yard.run("go", app_tools=[ASK_SHOPPER])
        async for event in run:
            if isinstance(event, RunSuspended):
                await yard.deliver(run.conversation, event.waiting_for[0], {"found": SECRET})
    assert MARK in script.shown and SECRET not in script.shown


async def test_results_of_mcp_servers_hold_no_secret_also_in_their_own_form(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    rules = RedactRules(own={"process": r"process \d{1,9}"})
    async with open_yard([], servers={"plain": plain.spec}, redact=rules) as yard:
        run = yard.call("look", {})
        result = get_result(await collect_events(run))
        native = await yard.result(run.conversation, result.native) if result.native else b"[redacted: process]"
    assert "[redacted: process]" in result.content
    assert native is not None and b"[redacted: process]" in native


async def test_questions_of_mcp_servers_hold_no_secret_and_can_be_answered(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}, redact=RedactRules(own={"who": "your name"})) as yard:
        run = yard.call("ask", {})
        events: list[Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, CallParked):
                assert event.question["message"] == "What is [redacted: who]?"
                await yard.answer(run.conversation, event.call_id, {"name": "Ann"})
        assert "Ann" in get_result(events).content


async def test_log_lines_hold_no_secret(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level, toolyard_level = root.handlers[:], root.level, logging.getLogger("toolyard").level
    configure_logging(redact=RULES)
    try:
        async with open_yard([call("crash_with_secret"), say("ok")], TOOLS, redact=RULES) as yard:
            await collect_events(yard.run("go"))
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        logging.getLogger("toolyard").setLevel(toolyard_level)
    written = capfd.readouterr().err
    assert "crash_with_secret raised" in written and "[redacted: staff_number]" in written
    assert "EMP-123456" not in written and SECRET not in written


async def test_streams_messages_and_traces_hold_no_secret_and_administrators_read_the_original() -> None:
    keys = [
        build_key("ann"),
        build_key("olga", "operator"),
        build_key("boss", "admin", "operator"),
        build_key("eve", "admin", "operator", tenant="other"),
    ]
    script = [call("read_file"), say("ok"), call("fail_with_secret"), say("ok")]
    async with open_api_client(script, tools=TOOLS, redact=RULES, keys=keys) as everyone:
        ann = everyone.with_key("ann")
        conversation = await ann.create_conversation()
        streamed = [event async for event in ann.stream_chat(conversation, "go")]
        streamed += [event async for event in ann.stream_chat(conversation, "again")]
        seen = str(streamed) + str(await ann.list_messages(conversation))
        seen += await read_traces(everyone.with_key("olga"), conversation)
        assert MARK in seen and SECRET not in seen
        first, second = [event["call_id"] for _, event in streamed if event.get("state") == "finished"]
        path = f"{conversation}/calls/{first}/original"
        original = await everyone.with_key("boss").get(path)
        assert original["content"] == f'{{"token":"{SECRET}","owner":"EMP-123456"}}'
        assert SECRET in (await everyone.with_key("boss").get(f"{conversation}/calls/{second}/original"))["content"]
        await ann.get(path, expect=403)
        await everyone.with_key("olga").get(path, expect=403)
        await everyone.with_key("eve").get(path, expect=404)
        entries = (await everyone.with_key("boss").get("/audit?action=original.read&order=oldest"))["entries"]
        calls = conversation.removeprefix("/conversations/")
        assert [entry["target"] for entry in entries] == [f"{calls}/{first}", f"{calls}/{second}"]
        assert SECRET not in str(entries)


async def read_traces(http: ApiClient, conversation: str) -> str:
    """Return the traces of both runs as text."""
    runs = (await http.get("/traces?whose=tenant"))["runs"]
    assert len(runs) == 2
    return str([await http.get(f"{conversation}/runs/{run['run_id']}") for run in runs])


async def test_a_fork_keeps_the_original() -> None:
    async with open_yard([call("read_file"), say("ok")], TOOLS, redact=RULES) as yard:
        run = yard.run("go")
        result = get_result(await collect_events(run))
        fork = await yard.fork(run.conversation)
        original = await yard.service.conversations.read_original(fork, result.call_id)
    assert original is not None and SECRET.encode() in original


async def test_results_in_a_history_that_an_application_sends_are_redacted() -> None:
    script = RecordingScript(say("ok"))
    async with open_api_client(script, redact=RULES) as http:
        conversation = await http.create_conversation()
        asked = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        await http.post(f"{conversation}/messages", {"role": "assistant", "tool_calls": [asked]}, expect=201)
        answer = {"role": "tool", "content": SECRET, "tool_call_id": "c1"}
        await http.post(f"{conversation}/messages", answer, expect=201)
        [event async for event in http.stream_chat(conversation, "go on")]
    assert script.shown == MARK
