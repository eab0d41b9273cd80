"""The records of log lines have what those of `logging` itself have: other programs format and collect them."""

import logging
import os
from collections.abc import Iterator

import pytest

from toolyard.observability.log_lines import log_line

FIXED = ("name", "levelno", "levelname", "args", "thread", "threadName", "process", "processName", "exc_info")
LOG = logging.getLogger("toolyard.tests")


class Labelled(logging.LogRecord):
    """A record as the factory of an application makes it."""

    label = "made by the application"


@pytest.fixture
def factory() -> Iterator[None]:
    logging.setLogRecordFactory(Labelled)
    yield
    logging.setLogRecordFactory(logging.LogRecord)


def test_a_line_has_the_fields_of_any_other_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        LOG.info("before")
        log_line(LOG, logging.INFO, "request_1", "Tool finished", tool_name="add")
        LOG.info("after")
    before, line, after = caplog.records
    assert vars(line).keys() == vars(before).keys() | {"correlation_id", "message"}
    assert [getattr(line, name) for name in FIXED] == [getattr(before, name) for name in FIXED]
    assert line.process == os.getpid()
    assert before.created <= line.created <= after.created
    assert before.relativeCreated <= line.relativeCreated <= after.relativeCreated
    assert line.msecs == pytest.approx(line.created % 1 * 1000)
    assert line.getMessage() == "correlation_id=request_1 | tool_name=add | Tool finished"


@pytest.mark.usefixtures("factory")
def test_a_line_is_made_by_the_record_factory_of_an_application(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_line(LOG, logging.INFO, "request_1", "Tool finished")
    assert getattr(caplog.records[0], "label", "") == Labelled.label
