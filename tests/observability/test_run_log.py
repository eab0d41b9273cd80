"""Lines about calls that failed, with arguments that are looked up when they are needed."""

import logging

import pytest

from toolyard.core.conversation.events import CallEnded, Entry, TurnFailed
from toolyard.core.conversation.history import History
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.state import State
from toolyard.core.items import Call, Problem, Result
from toolyard.core.model_failures import BUDGET_EXCEEDED
from toolyard.observability.run_log import RunLog
from toolyard.observability.telemetry import Observers

CALL = Call(id="call_1", at=0.0, tool="save", arguments={"item": "milk", "password": "hunter22"})


def log_failure(state: State | None) -> None:
    problem = Problem(error="no such shop", error_type="execution_error")
    result = Result(id="i", at=0.0, call_id="call_1", tool="save", outcome="error", content="", error=problem)
    entry = Entry(conversation="c", seq=1, at=0.0, event=CallEnded(result=result), run="run_1")
    Observers(RunLog({"c": state}.get).handlers).observe([entry])


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(State(calls={"call_1": CallState(call=CALL)}), id="open, beside other calls of its turn"),
        pytest.param(State(history=History([CALL])), id="in the history"),
    ],
)
def test_a_failed_call_is_logged_with_its_arguments_redacted(state: State, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolyard.tools"):
        log_failure(state)
    line = caplog.messages[0]
    assert "no such shop" in line
    assert "milk" in line
    assert "hunter22" not in line


def test_a_failed_call_of_a_conversation_that_is_gone_is_logged_without_arguments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "toolyard.tools"):
        log_failure(None)
    assert "no such shop" in caplog.messages[0]
    assert "arguments=" not in caplog.messages[0]


@pytest.mark.parametrize(("error_type", "level"), [(BUDGET_EXCEEDED, "INFO"), ("unavailable", "ERROR")])
def test_a_turn_that_a_budget_refuses_is_no_error_of_the_server(
    error_type: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    failed = TurnFailed(problem=Problem(error="no room", error_type=error_type))
    with caplog.at_level(logging.INFO, "toolyard.models"):
        Observers(RunLog(dict[str, State]().get).handlers).observe(
            [Entry(conversation="c", seq=1, at=0.0, event=failed, run="run_1")]
        )
    assert [record.levelname for record in caplog.records] == [level]
