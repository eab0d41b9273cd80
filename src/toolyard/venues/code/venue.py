"""The venue of `run_code`: a pool of sandbox processes, of which a program holds one only while it computes."""

import asyncio
import datetime
from collections.abc import Sequence

import pydantic_monty as monty

from toolyard.core.items import Call
from toolyard.core.ports import Context, Failure, ProgramCalls, ToolHooks, Value
from toolyard.core.tools.definition import Tool
from toolyard.venues.code.definition import RUN_CODE, validate_arguments
from toolyard.venues.code.diagnostics import describe_error, describe_syntax, describe_types
from toolyard.venues.code.program import Dormant, NondeterministicProgram, Program
from toolyard.venues.code.results import build_program_failure
from toolyard.venues.code.stubs import build_stubs, find_words, name_functions

MAX_PROCESSES = 4
MAX_CRASHES = 2
"""How often a program is run again after its sandbox has crashed."""


class CodeVenue:
    """Runs programs. The pool of sandboxes is started by the first of them."""

    def __init__(self, tool: Tool = RUN_CODE, *, max_processes: int = MAX_PROCESSES, idle_s: float = 2.0) -> None:
        """`idle_s` is how long a program keeps its sandbox while it waits for calls and no other program needs it."""
        self._tool = tool
        self._idle_s = idle_s
        self._max_processes = max_processes
        self._pool: monty.AsyncMonty | None = None
        self._opening = asyncio.Lock()
        self._programs = 0
        """How many programs have a sandbox or wait for one."""

    def tools(self) -> Sequence[Tool]:
        return (self._tool,)

    def hooks(self, tool: str) -> ToolHooks:
        return ToolHooks(validate=validate_arguments)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.__aexit__(None, None, None)

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure:
        raise NotImplementedError("a program needs its calls: use run_program")

    async def run_program(self, call: Call, context: Context, calls: ProgramCalls) -> Value | Failure:
        """Run a program from its start to its end, through all its waits.

        What it was given before, it is given again from the log, so that it comes to the same place.
        """
        crashes = 0
        while True:
            program = Program(call, calls, self._idle_s, lambda: self._programs > self._max_processes)
            try:
                return await self._run_once(program)
            except Dormant:
                await calls.wait_result(program.seen, None)
            except monty.MontyCrashedError as error:
                crashes += 1
                if error.timed_out or crashes > MAX_CRASHES:
                    return _describe_crash(error, program)
            except NondeterministicProgram as error:
                return build_program_failure(str(error), program.printed, "nondeterministic")
            except monty.MontyTypingError as error:
                return Failure(problem=describe_types(error.display(), program.code, calls))
            except monty.MontySyntaxError as error:
                return Failure(problem=describe_syntax(error))
            except monty.MontyRuntimeError as error:
                error_text, error_type = describe_error(error.display(), calls.limits)
                return build_program_failure(error_text, program.printed, error_type)
            except monty.MontyError as error:
                return build_program_failure(str(error), program.printed)

    async def _run_once(self, program: Program) -> Value | Failure:
        pool, limits = await self._open_pool(), program.calls.limits
        program.calls.reload()  # it may have made calls before it gave its sandbox back
        is_replay = program.calls.recorded_seen >= 0
        words = find_words(program.code)
        functions = {name: tool for name, tool in name_functions(program.calls.tools.values()).items() if name in words}
        called_at = datetime.datetime.fromtimestamp(int(program.call.at), datetime.UTC)
        session = pool.checkout(
            limits={
                "max_turn_duration_secs": limits.program_step_seconds,
                "max_feed_duration_secs": limits.program_seconds,
                "max_memory": limits.program_memory_bytes,
                "max_suspensions": 20 * limits.program_calls + 1000,
            },
            # The same whenever the program is run again.
            os_policy={
                "datetime": called_at,
                "sleep": "zero",
                "random_start": {"seed": program.call.id},
                "process_time": "zero",
            },
            # Tools may have changed since a program was accepted: it is not checked again.
            type_check=not is_replay,
            type_check_stubs=None if is_replay else build_stubs(functions),
            type_check_format="concise",
        )
        self._programs += 1
        try:
            async with session as sandbox:
                snapshot = await sandbox.feed_start(program.code, print_callback=program.print)
                return await program.drive(snapshot, functions)
        finally:
            self._programs -= 1

    async def _open_pool(self) -> monty.AsyncMonty:
        async with self._opening:
            if self._pool is None:
                pool = monty.AsyncMonty(min_processes=1, max_processes=self._max_processes)
                self._pool = await pool.__aenter__()
            return self._pool


def _describe_crash(error: "monty.MontyCrashedError", program: Program) -> Failure:
    """Return the failure of a program whose sandbox crashed, or was ended because it took too long."""
    if not error.timed_out:
        return build_program_failure("the sandbox of the program crashed", program.printed, "execution_error")
    # Mostly while the program was checked: while it runs, the sandbox ends it by itself.
    error_text = f"the program took more than {program.calls.limits.program_step_seconds:g} s at one place"
    return build_program_failure(error_text, program.printed, "timeout")
