"""The records of log lines have what those of `logging` itself have: other programs format and collect them.

Lines that only our own handler writes have no records, and are the same.
"""

import json
import logging
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from unittest.mock import Mock

import pytest

from toolyard.observability.log_lines import JsonFormatter, LineFormatter, StderrHandler, log_line

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
    assert line.msecs == int(line.created % 1 * 1000)
    assert line.getMessage() == "correlation_id=request_1 | tool_name=add | Tool finished"


@pytest.mark.usefixtures("factory")
def test_a_line_is_made_by_the_record_factory_of_an_application(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_line(LOG, logging.INFO, "request_1", "Tool finished")
    assert getattr(caplog.records[0], "label", "") == Labelled.label


@contextmanager
def open_logger(handler: logging.Handler) -> Generator[logging.Logger]:
    """Yield a logger whose lines reach this handler only."""
    logger = logging.Logger("toolyard.tests", logging.INFO)  # without the handlers that pytest adds to all others
    logger.addHandler(handler)
    yield logger
    handler.close()


def log_finished(logger: logging.Logger, **fields: object) -> None:
    log_line(
        logger, logging.INFO, "request_1", "Tool finished", **{"tool_name": "add", "token": "sk-" + "a" * 20, **fields}
    )


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()], ids=["text", "json"])
def test_a_line_is_the_same_without_a_record(
    formatter: LineFormatter | JsonFormatter, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[str] = []
    with open_logger(StderrHandler(formatter)) as logger:
        for others in ((), (logging.NullHandler(),)):
            for other in others:
                logger.addHandler(other)
            log_finished(logger, took_s=0.5, detail="", words="two words")
            logger.handlers[0].flush()
            written.append(capsys.readouterr().err)
    alone, beside_another = (re.sub(r"\d{4}-\S+Z", "TIME", text) for text in written)
    assert alone == beside_another
    assert "request_1" in alone and "two words" in alone and "aaaa" not in alone and "detail" not in alone


def test_other_programs_see_the_lines_beside_our_handler(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[object] = []

    def note(record: logging.LogRecord) -> bool:
        seen.append(record.__dict__["correlation_id"])
        return len(seen) > 1

    with open_logger(StderrHandler(JsonFormatter())) as logger:
        logger.addFilter(note)
        log_finished(logger)
        assert seen == ["request_1"]
        logger.filters.clear()
        logger.handlers[0].addFilter(note)
        log_finished(logger)
        logger.handlers[0].filters.clear()
        logger.handlers[0].setLevel(logging.ERROR)
        log_finished(logger)
        logger.handlers[0].setLevel(logging.NOTSET)
        logger.handlers[0].setFormatter(logging.Formatter("in its own format: %(correlation_id)s"))
        log_finished(logger)
        logger.handlers[0].flush()
    assert len(seen) == 2
    # The filter dropped the first line, and the level the third.
    written, last = capsys.readouterr().err.splitlines()
    assert json.loads(written)["message"] == "Tool finished"
    assert last == "in its own format: request_1"


def test_what_another_program_puts_in_place_of_call_handlers_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_logger(StderrHandler(LineFormatter())) as logger:
        monkeypatch.setattr(logging.Logger, "callHandlers", called := Mock())
        log_finished(logger)
        monkeypatch.undo()
    assert called.call_count == 1


def test_a_line_that_cannot_be_written_does_not_fail_its_program(capsys: pytest.CaptureFixture[str]) -> None:
    class Unspeakable:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    with open_logger(StderrHandler(LineFormatter())) as logger:
        log_finished(logger, value=Unspeakable())
    assert "--- Logging error ---" in capsys.readouterr().err
