"""A command that runs inside the tests' own process sets up logging; the next test finds it as it was."""

import logging
from collections.abc import Iterator

import pytest

from toolyard.observability.log_lines import NOISY_LOGGERS


@pytest.fixture(autouse=True)
def same_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers = root.handlers[:]
    levels = {name: logging.getLogger(name).level for name in ("", "toolyard", *NOISY_LOGGERS)}
    yield
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
