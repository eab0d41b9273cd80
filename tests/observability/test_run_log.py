"""What the log of runs remembers of calls between their request and their end."""

import gc
import weakref

import pytest

from toolyard import Caller
from toolyard.core.conversation.events import Entry, RunQueued
from toolyard.core.items import Call
from toolyard.observability.run_log import RunLog
from toolyard.observability.telemetry import Observers


class Arguments(dict[str, object]):
    """Arguments that a test can watch."""


def remember(run_log: RunLog, arguments: Arguments) -> "weakref.ref[Arguments]":
    call = Call(id="call_1", at=0.0, tool="save", arguments=arguments)
    event = RunQueued(caller=Caller(), input=(call,))
    Observers(run_log.handlers).observe([Entry(conversation="c", seq=1, at=0.0, event=event, run="run_1")])
    return weakref.ref(arguments)


@pytest.mark.parametrize("values", [{"text": "x" * 1000}, {"list": [1]}, {str(number): 1 for number in range(100)}])
def test_large_arguments_are_not_kept_whole_as_their_call_may_never_end_here(values: dict[str, object]) -> None:
    run_log = RunLog()
    kept = remember(run_log, Arguments(values))
    gc.collect()
    assert kept() is None


def test_small_arguments_are_kept_as_they_are() -> None:
    run_log = RunLog()
    kept = remember(run_log, Arguments(item="milk", quantity=2))
    gc.collect()
    assert kept() is not None
