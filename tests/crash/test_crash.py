"""After kill -9 at any moment, starting again finishes every run, and nothing happens twice."""

from pathlib import Path

import pytest

from crash.storm import storm


@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_of_kills_loses_no_run_and_doubles_no_effect(tmp_path: Path, seed: int) -> None:
    killed, wrong = storm(tmp_path, seed)
    assert wrong == []
    assert killed >= 8


@pytest.mark.parametrize("programs", [False, True])
def test_the_check_can_fail_a_tool_that_lies_about_being_idempotent_is_caught(tmp_path: Path, programs: bool) -> None:
    _, wrong = storm(tmp_path, 1, kills=3, falsely_idempotent=True, programs=programs)
    assert any("took effect" in fault for fault in wrong)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_of_kills_doubles_no_call_of_a_program_and_every_program_ends(tmp_path: Path, seed: int) -> None:
    killed, wrong = storm(tmp_path, seed, programs=True)
    assert wrong == []
    assert killed >= 8
