"""One story per correlation id, in the words of the seed, with every secret left out."""

import logging
from collections.abc import Iterator

import pytest

from support import events_of, in_yard
from toolyard import Context, ToolError, Yard, call, say, tool
from toolyard.engine.telemetry import LineFormatter, masked

own = logging.getLogger("groceries")


@tool
def add_to_groceries(item: str, qty: int = 1, api_key: str = "") -> dict[str, object]:
    """Add an item."""
    own.info("writing %s", item)
    return {"ok": True, "item": item}


@tool
def fail_to_add(context: Context) -> None:
    """Fails."""
    raise ToolError("no such list", "not_found", {"id": context.correlation_id})


class Lines(logging.Handler):
    """Keeps the lines as they would be written."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(LineFormatter())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name in ("toolyard", "groceries"):
            self.lines.append(self.format(record))


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    caplog.set_level(logging.INFO)
    handler = Lines()
    logging.getLogger().addHandler(handler)
    yield handler.lines
    logging.getLogger().removeHandler(handler)


@pytest.mark.proves("003.correlation-id-everywhere", "003.correlation-search", "003.log-lines")
def test_the_lines_of_a_request_tell_its_story_under_one_id(lines: list[str]) -> None:
    async def test(yard: Yard) -> None:
        await events_of(yard.run("Add milk to groceries", correlation_id="abc-123"))

    script = [call("add_to_groceries", item="milk", api_key="very-secret-value"), say("I've added milk.")]
    in_yard(test, script, [add_to_groceries])
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


@pytest.mark.proves("003.error-logged")
def test_an_error_of_a_tool_is_logged_with_its_type_and_the_id_reaches_the_tool(lines: list[str]) -> None:
    async def test(yard: Yard) -> None:
        await events_of(yard.run("go", correlation_id="abc-123"))

    in_yard(test, [call("fail_to_add"), say("sorry")], [fail_to_add])
    (line,) = [line for line in lines if "Tool execution error" in line]
    assert "correlation_id=abc-123" in line and "error_type=not_found" in line and "no such list" in line


@pytest.mark.parametrize(
    "secret",
    [
        "Authorization: Bearer abcdefgh12345678",
        "key sk-abcdefghijklmnop",
        "password=hunter2hunter2",
        'api_key: "0123456789"',
    ],
)
def test_secrets_in_texts_are_masked(secret: str) -> None:
    told = str(masked(f"it said {secret} here"))
    assert "***" in told and told.startswith("it said") and told.endswith(" here")
    assert not any(word in told for word in ("abcdefgh", "hunter2", "0123456789"))


def test_secrets_in_nested_values_are_masked_and_the_rest_is_kept() -> None:
    told = masked({"a": [{"token": "t", "qty": 1}], "Password": "p", "note": "plain"})
    assert told == {"a": [{"token": "***", "qty": 1}], "Password": "***", "note": "plain"}
