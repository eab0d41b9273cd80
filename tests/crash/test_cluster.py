"""Replicas that are killed, stopped and cut off, and whose database restarts, lose no payment and make none twice."""

from pathlib import Path

from crash.cluster import start_cluster
from crash.cluster_check import FaultKind, Problem
from crash.cluster_storm import MIX, ClusterStorm, Phase, render_table

CONVERSATIONS = 24
FEW_CONVERSATIONS = 12
"""For a control: it is caught in the calls that the faults hit, however many others there are."""
MAX_PAYER_S = 60.0


async def find_problems(folder: Path, phase: Phase, *controls: str) -> set[Problem]:
    async with start_cluster(folder, *controls) as cluster:
        outcome = await ClusterStorm(cluster, max_payer_s=MAX_PAYER_S).run(phase)
    print(render_table([outcome]), *outcome.violations, sep="\n")
    return {violation.problem for violation in outcome.violations}


async def test_a_short_storm_of_every_kind_of_fault_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    assert await find_problems(tmp_path, Phase("a mix", MIX, len(MIX), CONVERSATIONS)) == set()


async def test_a_short_storm_doubles_no_payment_of_a_program_and_every_program_ends(tmp_path: Path) -> None:
    phase = Phase("programs", ("kill", "stop"), 6, CONVERSATIONS)
    assert await find_problems(tmp_path, phase, "programs") == set()


async def test_the_check_can_fail_calls_of_programs_that_run_again_are_caught(tmp_path: Path) -> None:
    kinds: tuple[FaultKind, ...] = ("kill",)
    assert "doubled" in await find_problems(tmp_path, Phase("kill", kinds, 2, FEW_CONVERSATIONS), "programs", "rerun")


async def test_the_check_can_fail_calls_that_run_again_are_caught(tmp_path: Path) -> None:
    kinds: tuple[FaultKind, ...] = ("kill",)
    assert "doubled" in await find_problems(tmp_path, Phase("kill", kinds, 2, FEW_CONVERSATIONS), "rerun")


async def test_the_check_can_fail_owners_without_a_fence_are_caught(tmp_path: Path) -> None:
    kinds: tuple[FaultKind, ...] = ("stop",)
    assert "doubled" in await find_problems(tmp_path, Phase("stop", kinds, 2, FEW_CONVERSATIONS), "unfenced")
