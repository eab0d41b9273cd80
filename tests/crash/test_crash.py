"""After kill -9 at any moment, starting again finishes every run, and nothing happens twice."""

from pathlib import Path

import pytest

from crash.storm import storm


@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_of_kills_loses_no_run_and_doubles_no_effect(tmp_path: Path, seed: int) -> None:
    killed, wrong = storm(tmp_path, seed)
    assert wrong == []
    assert killed >= 8


def test_the_check_can_fail_a_tool_that_lies_about_being_idempotent_is_caught(tmp_path: Path) -> None:
    for seed in range(5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        _, wrong = storm(folder, seed, falsely_idempotent=True)
        if any("took effect 2 times" in fault for fault in wrong):
            return
    pytest.fail("no doubled effect was found although the tool ran again after every crash")
