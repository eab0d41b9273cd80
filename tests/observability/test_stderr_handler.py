"""Lines on standard error: written together, in order, soon, and warnings at once."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from toolyard.observability.log_lines import MAX_GATHERED_CHARS, LineFormatter, StderrHandler

WAIT_S = 10.0


class WriteCounter(StderrHandler):
    """Keeps what is written, and says when something was."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self.writes: list[str] = []
        self.written = threading.Event()

    def _write(self, text: str) -> bool:
        self.writes.append(text)
        self.written.set()
        return True

    @property
    def events(self) -> list[str]:
        return [line.rpartition(" | ")[2] for line in "".join(self.writes).splitlines()]


@pytest.fixture
def handler() -> Iterator[WriteCounter]:
    handler = WriteCounter()
    yield handler
    handler.flush()


def log(handler: StderrHandler, level: int, text: str) -> None:
    handler.handle(logging.LogRecord("test", level, "", 0, text, (), None))


def test_lines_are_written_together_and_without_a_further_line(handler: WriteCounter) -> None:
    for number in range(5):
        log(handler, logging.INFO, f"line {number}")
    assert handler.writes == []
    assert handler.written.wait(WAIT_S)
    assert len(handler.writes) == 1 and handler.events == [f"line {number}" for number in range(5)]
    handler.written.clear()
    log(handler, logging.INFO, "later")
    assert handler.written.wait(WAIT_S) and handler.events[-1] == "later"


def test_a_warning_is_written_at_once_after_the_lines_before_it(handler: WriteCounter) -> None:
    log(handler, logging.INFO, "before")
    log(handler, logging.WARNING, "warning")
    assert handler.events == ["before", "warning"]


def test_what_is_gathered_is_bounded(handler: WriteCounter) -> None:
    for _ in range(3):
        log(handler, logging.INFO, "x" * (MAX_GATHERED_CHARS // 3))
    assert len(handler.events) == 3


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(3)", "import threading; raise ValueError('no')"])
def test_the_last_lines_are_written_at_exit(end: str) -> None:
    program = (
        "import logging; from toolyard.observability.log_lines import configure_logging; configure_logging();"
        f" logging.getLogger('app').info('last words'); {end}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ)
    )
    assert done.stderr.count("last words") == 1


def test_lines_that_nobody_reads_are_dropped_and_counted(
    handler: WriteCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(text: str) -> bool:
        return False

    monkeypatch.setattr(handler, "_write", refuse)
    log(handler, logging.INFO, "lost")
    log(handler, logging.WARNING, "lost too")
    monkeypatch.undo()
    log(handler, logging.WARNING, "read again")
    assert [event.partition(":")[0] for event in handler.events] == ["… 2 log lines were dropped", "read again"]
