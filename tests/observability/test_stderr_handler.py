"""Lines on standard error: written together, in order, soon, and warnings at once."""

import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr
from types import FrameType

import pytest

from toolyard.observability import log_lines
from toolyard.observability.log_lines import MAX_GATHERED_CHARS, LineFormatter, StderrHandler

WAIT_S = 20.0
NEVER_S = 3600.0


class Pipe:
    """Standard error of this process, read by the test."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)

    def read_events(self, wait_s: float = 0.0) -> list[str]:
        """Return the events of the lines that have come by now, or come first within this time."""
        ready, _, _ = select.select([self._read_end], [], [], wait_s)
        text = os.read(self._read_end, 1_000_000).decode() if ready else ""
        return [line.rpartition(" | ")[2] for line in text.splitlines()]

    def close(self) -> None:
        os.close(self._read_end)


@contextmanager
def open_handler() -> Generator[tuple[Pipe, StderrHandler]]:
    """Yield a handler, and what it writes to. Not as fixtures: pytest replaces standard error after those."""
    pipe, handler = Pipe(), StderrHandler(LineFormatter())
    with os.fdopen(pipe.write_end, "w") as stderr, redirect_stderr(stderr):
        yield pipe, handler
        handler.close()
    pipe.close()


@pytest.fixture
def never_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gather lines until something else writes them."""
    monkeypatch.setattr(log_lines, "GATHER_S", NEVER_S)


def log(handler: StderrHandler, level: int, text: str) -> None:
    handler.handle(logging.LogRecord("test", level, "", 0, text, (), None))


def test_a_line_is_written_soon_without_a_further_one() -> None:
    with open_handler() as (pipe, handler):
        for number in range(2):
            log(handler, logging.INFO, f"line {number}")
            assert pipe.read_events(WAIT_S) == [f"line {number}"]


@pytest.mark.usefixtures("never_due")
def test_a_warning_is_written_at_once_after_the_lines_before_it() -> None:
    with open_handler() as (pipe, handler):
        for number in range(5):
            log(handler, logging.INFO, f"line {number}")
        assert pipe.read_events() == []
        log(handler, logging.WARNING, "warning")
        assert pipe.read_events() == [*(f"line {number}" for number in range(5)), "warning"]


@pytest.mark.usefixtures("never_due")
def test_what_is_gathered_is_bounded() -> None:
    with open_handler() as (pipe, handler):
        for _ in range(1 + MAX_GATHERED_CHARS // 10_000):
            log(handler, logging.INFO, "x" * 10_000)
        assert pipe.read_events()


@pytest.mark.usefixtures("never_due")
def test_a_closed_handler_has_written_everything() -> None:
    with open_handler() as (pipe, handler):
        log(handler, logging.INFO, "line")
        handler.close()
        assert pipe.read_events() == ["line"]


@pytest.mark.usefixtures("never_due")
def test_a_forked_child_writes_its_own_lines_once_and_the_parent_its_own() -> None:
    with open_handler() as (pipe, handler):
        log(handler, logging.INFO, "parent")
        child = os.fork()
        if not child:
            log(handler, logging.INFO, "child")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert pipe.read_events() == ["child"]
        handler.flush()
        assert pipe.read_events() == ["parent"]


def test_lines_that_nobody_reads_are_dropped_and_counted() -> None:
    with open_handler() as (pipe, handler):
        os.set_blocking(pipe.write_end, False)
        filled = 0
        while select.select([], [pipe.write_end], [], 0)[1]:
            filled += os.write(pipe.write_end, b"x" * 4096)
        log(handler, logging.WARNING, "lost")
        log(handler, logging.WARNING, "lost too")
        assert len("".join(pipe.read_events())) == filled
        log(handler, logging.WARNING, "read again")
        dropped, last = pipe.read_events()
        assert dropped.startswith("… 2 log lines were dropped") and last == "read again"


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(3)", "raise ValueError('no')"])
def test_the_last_lines_are_written_at_exit(end: str) -> None:
    program = (
        "import logging; from toolyard.observability.log_lines import configure_logging; configure_logging();"
        f" logging.getLogger('app').info('last words'); {end}"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.count("last words") == 1


def test_a_signal_handler_may_log() -> None:
    with open_handler() as (pipe, handler):

        def log_signal(number: int, frame: FrameType | None) -> None:
            log(handler, logging.INFO, "signal")

        previous = signal.signal(signal.SIGUSR1, log_signal)
        try:
            for _ in range(200):
                os.kill(os.getpid(), signal.SIGUSR1)
                log(handler, logging.INFO, "line")
        finally:
            signal.signal(signal.SIGUSR1, previous)
        handler.flush()
        assert "signal" in pipe.read_events(WAIT_S)
