"""One story per correlation id, in the words of the seed, with every secret left out."""

import asyncio
import logging
import re
from collections.abc import Iterator

import pytest

from support import TEST_TIMEOUT_S, LineCollector, collect_events, open_yard
from toolyard import Context, ToolError, Yard, tool
from toolyard.observability.log_lines import log_line
from toolyard.observability.telemetry import mask_secrets
from toolyard.testing import call, say
from wire.strict import refuses
from wire.strict_chat import StrictChat

groceries_log = logging.getLogger("groceries")


@tool
def add_to_groceries(item: str, qty: int = 1, api_key: str = "") -> dict[str, object]:
    """Add an item."""
    groceries_log.info("writing %s", item)
    return {"ok": True, "item": item}


@tool
def fail_to_add(context: Context) -> None:
    """Fails."""
    raise ToolError("no such list", "not_found", {"id": context.correlation_id})


@pytest.fixture(params=[logging.DEBUG])
def lines(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    caplog.set_level(request.param, "toolyard")
    caplog.set_level(logging.INFO, "groceries")
    handler = LineCollector(request.param, packages=("toolyard", "groceries"))
    logging.getLogger().addHandler(handler)
    yield handler.lines
    logging.getLogger().removeHandler(handler)


@pytest.mark.proves("003.correlation-id-everywhere", "003.correlation-search", "003.log-lines")
async def test_the_lines_of_a_request_tell_its_story_under_one_id(lines: list[str]) -> None:

    script = [call("add_to_groceries", item="milk", api_key="very-secret-value"), say("I've added milk.")]
    async with open_yard(script, [add_to_groceries]) as yard:
        await collect_events(yard.run("Add milk to groceries", correlation_id="abc-123"))
    assert [line.rpartition(" | ")[2] for line in lines] == [
        "Starting run",
        "Registered 1 tools for this request",
        "Model requested 1 tool call(s)",
        "Executing tool",
        "Parsed tool arguments",
        "Tool start",
        "writing milk",
        "Tool finished",
        "Tool execution successful",
        "Registered 1 tools for this request",
        "Run ended",
    ]
    assert all("correlation_id=abc-123" in line for line in lines)
    assert not any("very-secret-value" in line for line in lines)
    assert sum("tool_name=add_to_groceries" in line for line in lines) == 5


at_info = pytest.mark.parametrize("lines", [logging.INFO], indirect=True)


@at_info
async def test_at_info_a_run_has_one_line_for_each_call_and_one_for_itself(lines: list[str]) -> None:

    calls = [call("add_to_groceries", item="milk"), call("add_to_groceries", item="tea"), say("Both.")]
    async with open_yard(calls, [add_to_groceries]) as yard:
        await collect_events(yard.run("Add milk and tea", correlation_id="abc-123"))
    assert [line.rpartition(" | ")[2] for line in lines] == [
        *("writing milk", "Tool finished", "writing tea", "Tool finished", "Run ended")
    ]
    assert all(" [INFO ] correlation_id=abc-123 | " in line for line in lines)


@at_info
async def test_a_failed_call_is_a_warning_with_its_arguments_redacted_and_bounded(lines: list[str]) -> None:
    @tool
    def pay(amount: float, card: dict[str, str], note: str) -> None:
        """Pay."""
        raise ToolError("the card was refused", "payment_error", {"reason": "limit", "api_key": "k-123456789"})

    card = {"token": "4242424242424242", "holder": "Bearer abcdefghijkl"}
    async with open_yard([call("pay", amount=5, card=card, note="n" * 100_000), say("no")], [pay]) as yard:
        await collect_events(yard.run("pay", correlation_id="abc-123"))
    (line,) = [line for line in lines if "Tool execution error" in line]
    assert " [WARNING] correlation_id=abc-123 | " in line and "tool_name=pay" in line
    assert 'error_type=payment_error | error="the card was refused"' in line
    assert """details={"reason": "limit", "api_key": "***"}""" in line
    assert """"card": {"token": "***", "holder": "Bearer ***"}""" in line
    assert len(line) < 2000


@at_info
async def test_a_failed_model_is_an_error_with_its_name_type_and_id(lines: list[str]) -> None:
    provider = StrictChat(refuses(401, "Incorrect API key: sk-abcdefghijkl"))
    async with (
        asyncio.timeout(TEST_TIMEOUT_S),
        provider.serving() as base_url,
        Yard(model=f"{base_url}#gpt") as yard,
    ):
        await collect_events(yard.run("hello", correlation_id="abc-123"))
    (line,) = [line for line in lines if "[ERROR]" in line]
    assert "correlation_id=abc-123" in line and line.endswith(" | Model turn failed")
    assert "#gpt" in line and "error_type=" in line and "401" in line and "abcdefghijkl" not in line


@at_info
async def test_no_value_can_forge_a_line(lines: list[str]) -> None:
    forged = "milk\n2026-01-01T00:00:00.000Z [ERROR] correlation_id=x | forged\x1b[2J\u202e"

    @tool
    def fail(item: str) -> None:
        """Fail."""
        groceries_log.info("took %s", item)
        raise ValueError(item)

    async with open_yard([call("fail", item=forged), say("no")], [fail]) as yard:
        await collect_events(yard.run("go", correlation_id=f"abc{forged}"))
    written = "\n".join(lines)
    assert written.count("forged") > 4 and "\x1b" not in written and "\u202e" not in written
    assert not any(re.match(r"\S+ \[ERROR", line) for line in written.splitlines())


def test_a_disabled_line_is_never_put_into_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "toolyard")

    class Unspeakable:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    log_line(logging.getLogger("toolyard.tools"), logging.INFO, "abc", "Tool finished", value=Unspeakable())
    assert not caplog.records


async def test_other_formatters_get_the_whole_line_and_the_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolyard")
    async with open_yard([call("add_to_groceries", item="milk"), say("Done.")], [add_to_groceries]) as yard:
        await collect_events(yard.run("Add milk", correlation_id="abc-123"))
    (record,) = [record for record in caplog.records if record.name == "toolyard.tools"]
    assert record.getMessage().startswith("correlation_id=abc-123 | ")
    assert "tool_name=add_to_groceries" in record.getMessage() and vars(record)["correlation_id"] == "abc-123"


@pytest.mark.proves("003.error-logged")
async def test_an_error_of_a_tool_is_logged_with_its_type_and_the_id_reaches_the_tool(lines: list[str]) -> None:
    async with open_yard([call("fail_to_add"), say("sorry")], [fail_to_add]) as yard:
        await collect_events(yard.run("go", correlation_id="abc-123"))
    (line,) = [line for line in lines if "Tool execution error" in line]
    assert "correlation_id=abc-123" in line and "error_type=not_found" in line and "no such list" in line


@pytest.mark.parametrize(
    "secret",
    [
        "Authorization: Bearer abcdefgh12345678",
        "key sk-abcdefghijklmnop",
        "password=hunter2hunter2",
        'api_key: "0123456789"',
        "https://ann:hunter2hunter2@host/",
        "eyJabcdefghijklmnop",
    ],
)
def test_secrets_in_texts_are_masked(secret: str) -> None:
    masked_text = str(mask_secrets(f"it said {secret} here"))
    assert "***" in masked_text and masked_text.startswith("it said") and masked_text.endswith(" here")
    assert not any(word in masked_text for word in ("abcdefgh", "hunter2", "0123456789"))


def test_secrets_in_nested_values_are_masked_and_the_rest_is_kept() -> None:
    masked_values = mask_secrets({"a": [{"token": "t", "qty": 1}], "Password": "p", "note": "plain"})
    assert masked_values == {"a": [{"token": "***", "qty": 1}], "Password": "***", "note": "plain"}
