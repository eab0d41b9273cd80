"""Run the checks that tool modules define for `toolyard doctor`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from traceback import format_exception_only
from typing import cast

import msgspec

from toolyard.cli.common import Setup
from toolyard.core.errors import Misconfigured
from toolyard.server.config import load_tool_module

MAX_CHECK_S = 30.0

ModuleCheck = tuple[str, bool, str]
"""A label of one word, whether the check passed, and a text."""


async def check_tool_modules(setup: Setup) -> AsyncIterator[ModuleCheck]:
    """Yield the results of the coroutine function `doctor_checks()` of each module that has one."""
    for name in setup.config.tools:
        try:
            module = load_tool_module(name, setup.base)
        except Misconfigured:
            continue  # the doctor's own check of the tools reports this
        checks = cast("Callable[[], Awaitable[object]] | None", getattr(module, "doctor_checks", None))
        if checks is not None:
            for check in await _run_checks(checks, f"the doctor_checks of {Path(name).name}"):
                yield check


async def _run_checks(checks: Callable[[], Awaitable[object]], title: str) -> list[ModuleCheck]:
    try:
        async with asyncio.timeout(MAX_CHECK_S):
            return msgspec.convert(await checks(), list[ModuleCheck])
    except TimeoutError:
        return [("tools", False, f"{title} did not end within {MAX_CHECK_S:g} s")]
    except msgspec.ValidationError:
        return [("tools", False, f"{title} must return (label, is well, text) for each")]
    except Exception as error:  # code of the user may raise anything; each exception is a finding
        return [("tools", False, f"{title} failed: {format_exception_only(error)[-1].strip()}")]
