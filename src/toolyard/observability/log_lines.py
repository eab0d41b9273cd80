"""Log lines with a correlation id, redacted and bounded fields, and an event. No value can forge a line of its own.

The library only logs, to loggers below `toolyard`; `configure_logging` is for programs, such as `toolyard serve`.
"""

import contextlib
import json
import logging
import os
import re
import select
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from queue import SimpleQueue
from typing import Literal

from toolyard.core.masking import MASK
from toolyard.core.settings.redact_rules import NO_REDACTION, RedactRules
from toolyard.core.tools.redactor import NO_REDACTOR, Redactor
from toolyard.observability.telemetry import SECRET_KEY, correlation, mask_secrets

MAX_VALUE_CHARS = 500
MAX_VALUES = 100
"""Values of one field that are shown, nested ones included."""
MAX_DEPTH = 8
GATHER_S = 0.05
"""How long lines are gathered, to be written together. A warning is written at once, after the lines before it."""
MAX_GATHERED_CHARS = 64 * 1024
MAX_CACHED_CHARS = 64
PIPE_BYTES = 4096
"""A pipe that is ready takes this much without blocking (POSIX PIPE_BUF is at least 512, and 4096 on Linux)."""
NOISY_LOGGERS = ("httpx", "httpx2", "mcp", "uvicorn")
"""Libraries that log every request at INFO; Toolyard logs each request once itself."""
_FILE_NAME = "log_lines.py"
_CALL_HANDLERS = logging.Logger.callHandlers
_OWN_ID = re.compile(r"(?:run|call)_[0-9a-f]{24}")
"""Most values of most lines: no secret, and plain."""
_PLAIN = re.compile(r"[\w.:/@+,*#%-]+")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that end a line, control a terminal, change the direction of writing, or cannot be encoded."""
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

LogFormat = Literal["text", "json"]


class LogLine:
    """A log message that is formatted only when a handler writes it, so that a disabled line costs nothing."""

    __slots__ = ("_fields", "correlation_id", "event")

    def __init__(self, correlation_id: str, event: str, fields: Mapping[str, object]) -> None:
        self.correlation_id = correlation_id
        self.event = event
        self._fields = fields

    @property
    def fields(self) -> dict[str, object]:
        """Return the fields that are not empty, redacted and bounded."""
        return {name: redact(value) for name, value in self._fields.items() if not _is_empty(value)}

    def __str__(self) -> str:
        text = f"correlation_id={format_value(self.correlation_id or '-')} | "
        for name, value in self._fields.items():
            if type(value) is str and 0 < len(value) <= MAX_CACHED_CHARS:  # most values
                text += f"{name}={_format_short_text(value)} | "
            elif type(value) is float or type(value) is int:
                text += f"{name}={value} | "
            elif not _is_empty(value):
                text += f"{name}={format_value(redact(value))} | "
        return text + self.event


class _Forks:
    """Counts the forks that led to this process. To ask for its id is a system call, too much for each line."""

    def __init__(self) -> None:
        self.number = 0
        if hasattr(os, "register_at_fork"):  # not on Windows
            os.register_at_fork(after_in_child=self._count)

    def _count(self) -> None:
        self.number += 1


_forks = _Forks()


def log_line(logger: logging.Logger, level: int, correlation_id: str, event: str, /, **fields: object) -> None:
    """Log an event with its fields. Handlers of other programs find the id as `record.correlation_id`."""
    if not logger.isEnabledFor(level):
        return
    line = LogLine(correlation_id, event, fields)
    handler = _find_only_handler(logger)
    if handler is not None:
        handler.write_line(logger, level, line)
    else:
        logger.handle(_make_record(logger, level, line))


def _make_record(logger: logging.Logger, level: int, line: LogLine) -> logging.LogRecord:
    # Not by `logger.log`: it walks the stack for its caller, and would always find the same line.
    record = logger.makeRecord(logger.name, level, _FILE_NAME, 0, line, (), None, "log_line")
    record.correlation_id = line.correlation_id
    return record


def _find_only_handler(logger: logging.Logger) -> "StderrHandler | None":
    """Return our handler if nothing else sees the lines of a logger: to make records takes longer than to write lines.

    Other programs see them by handlers, filters, their own factory of records, or what they put for `callHandlers`.
    """
    if logging.getLogRecordFactory() is not logging.LogRecord or logging.Logger.callHandlers is not _CALL_HANDLERS:
        return None
    if logger.filters:
        return None
    handlers, ancestor = logger.handlers, logger
    while ancestor.propagate and (ancestor := ancestor.parent) is not None:
        if ancestor.handlers:
            handlers = [*handlers, *ancestor.handlers]
    if len(handlers) != 1 or not isinstance(only := handlers[0], StderrHandler):
        return None
    return None if only.filters or only.level or only.formatter is not only.own_formatter else only


def redact(value: object) -> object:
    """Return the value without secrets, cut to `MAX_VALUES` values and to `MAX_VALUE_CHARS` a text."""
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return shorten_text(value)
    return _Redaction().apply(value, 0)


class _Redaction:
    def __init__(self) -> None:
        self._left = MAX_VALUES

    def apply(self, value: object, depth: int) -> object:
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            return "…"
        if isinstance(value, str):
            return shorten_text(value)
        if isinstance(value, Mapping):
            return self._redact_mapping(value, depth)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, list | tuple | set | frozenset):
            return self._redact_sequence(value, depth)  # pyright: ignore[reportUnknownArgumentType]
        if value is None or isinstance(value, bool | int | float):
            return value
        return shorten_text(str(value))

    def _redact_mapping(self, value: Mapping[object, object], depth: int) -> dict[str, object]:
        redacted: dict[str, object] = {}
        for key, item in value.items():
            name = shorten_text(str(key))
            redacted[name] = MASK if SECRET_KEY.search(name) else self.apply(item, depth + 1)
            if self._left < 0:
                break
        return redacted

    def _redact_sequence(self, value: Iterable[object], depth: int) -> list[object]:
        redacted: list[object] = []
        for item in value:
            redacted.append(self.apply(item, depth + 1))
            if self._left < 0:
                break
        return redacted


def shorten_text(text: str) -> str:
    """Return the text without secrets, cut to `MAX_VALUE_CHARS`."""
    # Mask before the cut, and more than is shown: half a secret would not be recognised as one.
    clean = str(mask_secrets(text[: 2 * MAX_VALUE_CHARS]))
    return clean if len(clean) <= MAX_VALUE_CHARS else f"{clean[:MAX_VALUE_CHARS]}…"


@lru_cache(maxsize=4096)  # ids and names come in many lines, and looking for secrets costs more than all the rest
def _format_short_text(text: str) -> str:
    return text if _OWN_ID.fullmatch(text) else format_value(shorten_text(text))


def format_value(value: object) -> str:
    """Return a value as it stands in a line of text: quoted, with escapes, unless it is a plain word or a number."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    if isinstance(value, int | float):
        return str(value)
    return escape(json.dumps(value, ensure_ascii=False, default=str))


def escape(text: str) -> str:
    """Return the text in one line."""
    return _UNSAFE.sub(lambda match: _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}", text)


class LineFormatter(logging.Formatter):
    """`2026-05-01T09:30:00.123Z [INFO ] correlation_id=… | tool_name=… | Tool finished`, also for other loggers."""

    def format(self, record: logging.LogRecord) -> str:
        if isinstance(record.msg, LogLine):
            line = self.format_line(record.created, record.levelname, record.name, record.msg)
        else:
            text = f"correlation_id={format_value(_get_correlation_id(record) or '-')} | {_format_message(record)}"
            line = f"{_format_time(record.created)} [{record.levelname:<5}] {text}"
        if record.exc_info:
            # Indented, so that no line of an exception's own text can pass for a log line.
            lines = str(mask_secrets(self.formatException(record.exc_info))).splitlines()
            line = "\n    ".join([line, *map(escape, lines)])
        return line

    def format_line(self, at: float, level: str, logger: str, line: LogLine) -> str:
        return f"{_format_time(at)} [{level:<5}] {line!s}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = record.msg
        if not isinstance(line, LogLine):
            line = LogLine(_get_correlation_id(record), str(mask_secrets(record.getMessage())), {})
        exception = str(mask_secrets(self.formatException(record.exc_info))) if record.exc_info else None
        return self.format_line(record.created, record.levelname, record.name, line, exception)

    def format_line(self, at: float, level: str, logger: str, line: LogLine, exception: str | None = None) -> str:
        content: dict[str, object] = {
            "time": _format_time(at),
            "level": level,
            "logger": logger,
            "correlation_id": line.correlation_id,
            "message": line.event,
            **line.fields,
        }
        if exception is not None:
            content["exception"] = exception
        return json.dumps(content, default=str)


class StderrHandler(logging.Handler):
    """Writes to standard error without waiting for its reader: lines that a full pipe cannot take are dropped.

    A thread writes the lines of `GATHER_S` together: a write costs as much as several lines.
    """

    def __init__(self, formatter: LineFormatter | JsonFormatter, redactor: Redactor = NO_REDACTOR) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.redactor = redactor
        self.own_formatter = formatter
        """Formats the lines without a record, as long as no other formatter is set."""
        self._dropped = 0
        self._gathered: list[str] = []
        self._gathered_chars = 0
        self._forks = _forks.number
        self._is_forked = False
        self._thread: threading.Thread | None = None
        self._is_awaited = False
        """Whether the thread is about to write what is gathered."""
        # Not an Event: a signal handler that logs would wait for the lock of one that the main thread holds.
        self._wakes: SimpleQueue[bool] = SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._gather(record.levelno, self.format(record))
        except Exception:
            self.handleError(record)

    def write_line(self, logger: logging.Logger, level: int, line: LogLine) -> None:
        """Write a line for which there is no record."""
        try:
            text = self.own_formatter.format_line(time.time(), logging.getLevelName(level), logger.name, line)
            self.acquire()
            try:
                self._gather(level, text)
            finally:
                self.release()
        except Exception:
            self.handleError(_make_record(logger, level, line))

    def _gather(self, level: int, line: str) -> None:
        text = f"{self.redactor.redact_text(line)}\n"
        if _forks.number != self._forks:
            # The parent writes its own lines. The child writes at once: it has no thread, and may end without exit.
            self._forks, self._is_forked, self._gathered = _forks.number, True, []
        self._gathered.append(text)
        self._gathered_chars += len(text)
        if level >= logging.WARNING or self._gathered_chars > MAX_GATHERED_CHARS or self._is_forked:
            self.flush()
        elif not self._is_awaited:
            self._is_awaited = True
            self._write_later()

    def flush(self) -> None:
        """Write the gathered lines now. `logging` does so at exit."""
        self.acquire()
        try:
            lines, self._gathered, self._gathered_chars, self._is_awaited = self._gathered, [], 0, False
            if self._dropped and self._write(f"… {self._dropped} log lines were dropped: nobody read them in time\n"):
                self._dropped = 0
            for text in _join_lines(lines):
                if self._dropped or not self._write(text):
                    self._dropped += text.count("\n")
        finally:
            self.release()

    def close(self) -> None:
        """Write what is gathered, and end the thread."""
        self.flush()
        self._wakes.put(False)
        super().close()

    def _write_later(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_gathered, name="log lines", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the interpreter shuts down
                self.flush()
        self._wakes.put(True)

    def _write_gathered(self) -> None:
        while self._wakes.get():
            time.sleep(GATHER_S)
            with contextlib.suppress(Exception):  # of a replaced stderr: the thread goes on with the next lines
                self.flush()

    def _write(self, text: str) -> bool:
        """Return whether the text was written. A long text may be written in part."""
        try:
            descriptor = sys.stderr.fileno()
        except (AttributeError, OSError, ValueError):  # stderr was replaced by an object that is not a file
            sys.stderr.write(text)
            return True
        data = text.encode(errors="backslashreplace")
        for start in range(0, len(data), PIPE_BYTES):
            if not _is_writable(descriptor):
                return False
            os.write(descriptor, data[start : start + PIPE_BYTES])
        return True


def _join_lines(lines: Iterable[str]) -> list[str]:
    """Return the lines joined to texts that a pipe takes at once. A longer line stands by itself."""
    texts: list[str] = []
    for line in lines:
        if texts and len(texts[-1]) + len(line) <= PIPE_BYTES // 4:  # a character has at most four bytes
            texts[-1] += line
        else:
            texts.append(line)
    return texts


def configure_logging(level: str = "info", format: LogFormat = "text", redact: RedactRules = NO_REDACTION) -> None:
    """Write log lines with correlation ids to standard error, in place of the root logger's handlers."""
    handler = StderrHandler(JsonFormatter() if format == "json" else LineFormatter(), Redactor(redact))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    root = logging.getLogger()
    logging.getLogger("toolyard").setLevel(root.level)
    root.setLevel(max(root.level, logging.INFO))  # debug lines of all libraries would bury Toolyard's
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))


def replace_log_redactor(redactor: Redactor) -> None:
    """Replace secrets in log lines by other rules from now on, if `configure_logging` was called."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, StderrHandler):
            handler.redactor = redactor


def _is_writable(descriptor: int) -> bool:
    if not hasattr(select, "poll"):  # Windows
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


def _format_time(at: float) -> str:
    second, milliseconds = divmod(int(at * 1000), 1000)
    return f"{_format_second(second)}.{milliseconds:03d}Z"


@lru_cache(maxsize=4)  # most lines share the second with the one before
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat(timespec="seconds").removesuffix("+00:00")


def _get_correlation_id(record: logging.LogRecord) -> str:
    return str(getattr(record, "correlation_id", "")) or correlation.get()


def _format_message(record: logging.LogRecord) -> str:
    return escape(str(mask_secrets(record.getMessage())))


def _is_empty(value: object) -> bool:
    return not value and not isinstance(value, int | float)
