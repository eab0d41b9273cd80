"""Does work that may never end, or take all memory, in a process of its own that may not.

As a program it reads lines of JSON, each a schema and values, and after each writes a line once it has done with the
schema all that a server does.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import jsonschema_rs

import toolyard
from toolyard.core.tools.definition import Tool
from toolyard.json_schema import InvalidSchema, SchemaValidator
from toolyard.models.offline.parameters import parse_parameters
from toolyard.models.schema_dialects import Dialect, UnsupportedSchema, convert

MAX_MEMORY_BYTES = 512 * 1024**2
MAX_CPU_S = 10
"""The processor time for one schema. It is a bound on steps, however busy the machine is."""

UNDEFENDED = "--undefended"


class BoundedChild:
    """A process that ends if a schema costs it too much. Without defences, its values are validated as they are."""

    def __init__(self, *, defended: bool = True) -> None:
        self._arguments = [] if defended else [UNDEFENDED]
        self._process: subprocess.Popen[str] | None = None

    def judge(self, schema: object, values: Sequence[object]) -> str:
        """Return whether the schema was accepted, `accepted` or `refused`; empty if it killed the process."""
        if self._process is None or self._process.poll() is not None:
            source = str(Path(toolyard.__file__).parent.parent)
            environment = {**os.environ, "PYTHONPATH": source}
            self._process = subprocess.Popen(
                [sys.executable, __file__, *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment,
            )
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([schema, values]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            self.close()
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def judge(schema: dict[str, object], values: Sequence[object]) -> str:
    """Accept or refuse a schema, validate the values and convert it for every provider."""
    for dialect in get_args(Dialect):
        try:
            len(json.dumps(convert(schema, dialect)))
        except UnsupportedSchema:
            continue
    try:
        validator = SchemaValidator(schema)
    except InvalidSchema:
        return "refused"
    for value in values:
        validator.find_errors(value, 10)
    for parameter in parse_parameters(Tool(name="t", parameters=schema, venue="function")):
        parameter.fits("text")
    return "accepted"


def judge_undefended(schema: dict[str, object], values: Sequence[object]) -> str:
    validator = jsonschema_rs.validator_for(schema, offline=True)
    for value in values:
        next(iter(validator.iter_errors(value)), None)
    return "accepted"


def main() -> None:
    chosen = judge_undefended if UNDEFENDED in sys.argv else judge
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        schema, values = json.loads(line)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        end_s = int(usage.ru_utime + usage.ru_stime) + MAX_CPU_S
        resource.setrlimit(resource.RLIMIT_CPU, (end_s, resource.RLIM_INFINITY))
        sys.stdout.write(f"{chosen(schema, values)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
