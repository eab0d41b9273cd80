"""A call whose judgement kills the server ends like a call that does: after a few starts it is not tried again."""

import signal
import subprocess
from pathlib import Path

import pytest

from forked_python import ForkedPython
from toolyard.core.conversation.plan import MAX_TURN_OWNERS

CHILD = Path(__file__).parent / "judging_child.py"


@pytest.mark.parametrize(("start", "ending"), [("direct", "done"), ("model", "done")])
def test_a_call_whose_judgement_kills_each_owner_is_given_up(tmp_path: Path, start: str, ending: str) -> None:
    deaths, output = 0, ""
    while deaths <= MAX_TURN_OWNERS + 2:
        words = [str(CHILD), str(tmp_path / "yard.db"), start if deaths == 0 else "resume"]
        with ForkedPython(words, stdout=subprocess.PIPE, text=True) as process:
            output, _ = process.communicate(timeout=120)
        if process.returncode != -signal.SIGKILL:
            break
        deaths += 1
    assert output.split() == ["unavailable", ending]
    assert deaths >= MAX_TURN_OWNERS
