"""A forked Python is a process as any other: with its own arguments, folder, environment, pipes, code and death."""

import os
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forked_python import ForkedPython, get_forker, run_forked

SCRIPT = """
import os, signal, sys
print(sys.argv[1:], os.getcwd(), os.environ.get("COLOUR"), __name__, sys.stdin.read(), flush=True)
print("warned", file=sys.stderr)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "fail":
    raise ValueError("so it is")
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def run(script: str, word: str, folder: Path) -> tuple[int, str, str]:
    pipe, env = subprocess.PIPE, {**os.environ, "COLOUR": word}
    with ForkedPython([script, word], cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        output, errors = process.communicate("typed", timeout=60)
    return process.returncode, output, errors


def test_its_code_its_output_and_its_surroundings_are_its_own(script: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    assert run(script, "3", folder) == (3, f"['3'] {folder} 3 __main__ typed\n", "warned\n")
    assert run(script, "0", tmp_path) == (0, f"['0'] {tmp_path} 0 __main__ typed\n", "warned\n")
    assert run(script, "kill", tmp_path)[0] == -signal.SIGKILL
    code, _, errors = run(script, "fail", tmp_path)
    assert code == 1 and errors.endswith("ValueError: so it is\n")
    assert "COLOUR" not in os.environ


def test_it_is_our_child_and_is_stopped_and_killed_as_one(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, time\nprint(os.getppid(), flush=True)\ntime.sleep(600)")
    with ForkedPython([str(script)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and int(process.stdout.readline()) == os.getpid()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    script.write_text("import time\ntime.sleep(600)")
    with pytest.raises(subprocess.TimeoutExpired):
        run_forked([str(script)], timeout_s=0.1)


def test_many_that_are_started_at_once_are_all_ours(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nsys.exit(int(sys.argv[1]))")

    def end_with(code: int) -> int:
        return run_forked([str(script), str(code)], timeout_s=60)

    get_forker.cache_clear()  # so that all of them need the first one
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(end_with, range(1, 25))) == list(range(1, 25))


def test_a_descriptor_that_is_passed_on_has_the_same_number(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, sys\nos.write(int(sys.argv[1]), b'here')")
    ours, theirs = socket.socketpair()
    with ours, theirs, ForkedPython([str(script), str(theirs.fileno())], pass_fds=[theirs.fileno()]) as process:
        assert process.wait(60) == 0
        assert ours.recv(10) == b"here"
