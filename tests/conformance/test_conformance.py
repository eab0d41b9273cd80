"""A part of the official conformance suite, through Toolyard to a server behind it; `make conformance` is all of it."""

import re
from pathlib import Path

import pytest

from conformance.figures import (
    CLIENT_TABLE,
    PAGE,
    SERVER_TABLE,
    Figures,
    differences,
    failing,
    read_figures,
    replace_table,
    totals,
    write_table,
)
from conformance.run import CLIENT, REVISIONS, SERVERS
from conformance.suite import ERA_NAMES, Era, column, count_checks, serve_fixtures

MODERN = ("server-stateless", "input-required-result-multiple-input-requests", "http-custom-header-server-validation")
LEGACY = ("tools-call-elicitation", "tools-call-with-logging", "tools-call-mixed-content", "resources-subscribe")


@pytest.mark.parametrize(
    ("revision", "era", "scenarios"),
    [
        ("2025-11-25", "legacy", LEGACY),
        ("2025-11-25", "modern", LEGACY[:2]),
        ("2025-11-25", "both", LEGACY),
        ("2026-07-28", "legacy", MODERN[1:2]),
        ("2026-07-28", "modern", MODERN),
        ("2026-07-28", "both", MODERN[1:]),
    ],
)
def test_scenarios_come_to_what_the_page_says(
    tmp_path: Path, revision: str, era: Era, scenarios: tuple[str, ...]
) -> None:
    expected = read_figures(SERVER_TABLE)[column(revision, era)]
    with serve_fixtures(tmp_path, era) as url:
        assert {name: count_checks(url, name, revision) for name in scenarios} == {
            name: expected[name] for name in scenarios
        }


def test_a_change_of_any_figure_is_told() -> None:
    expected: Figures = {"a": {"x": (3, 0), "y": (1, 2)}, "b": {"x": (3, 0)}}
    page = replace_table(f"# Title\n\n{SERVER_TABLE}\n\nold\n\n## Next\n", SERVER_TABLE, write_table(expected))
    assert read_figures(SERVER_TABLE, page) == expected and "old" not in page and page.endswith("\n## Next\n")
    measured: Figures = {"a": {"x": (3, 1), "z": (1, 0)}, "b": {"x": (3, 0)}}
    assert list(differences(measured, expected)) == [
        "a, x: 3/1 (the page says 3/0)",
        "a, y: – (the page says 1/2)",
        "a, z: 1/0 (the page says –)",
    ]


def test_the_page_has_every_combination_and_its_totals_are_those_of_its_scenarios() -> None:
    page, server, client = PAGE.read_text("utf-8"), read_figures(SERVER_TABLE), read_figures(CLIENT_TABLE)
    assert list(server) == [column(revision, era) for revision in REVISIONS for era in SERVERS]
    for revision in REVISIONS:
        for era in SERVERS:
            passed, failed = totals(server[column(revision, era)].values())
            assert f"| {revision} | {ERA_NAMES[era]} | {passed} | {failed} |" in page
        passed, failed = totals(client[revision].values())
        assert re.search(rf"\| {revision} \| {len(CLIENT[revision])} \| \d+ \| {passed} \| {failed} \|", page)
    assert {revision: set(client[revision]) for revision in client} == {name: set(CLIENT[name]) for name in CLIENT}


def test_the_page_explains_each_scenario_that_fails() -> None:
    page = PAGE.read_text("utf-8").partition(SERVER_TABLE)[0]
    failed = failing(read_figures(SERVER_TABLE)) | failing(read_figures(CLIENT_TABLE))
    assert failed, "otherwise the page could not be read"
    unexplained = [name for name in sorted(failed) if f"`{name}`" not in page and not name.startswith("tasks-")]
    assert unexplained == []


def test_auto_offers_no_less_than_a_plain_proxy_of_a_server_that_speaks_both() -> None:
    """75 of 80 checks for a client of 2025-11-25, and 159 for one of 2026-07-28."""
    server = read_figures(SERVER_TABLE)
    assert totals(server[column("2025-11-25", "both")].values())[0] >= 75
    assert totals(server[column("2026-07-28", "both")].values())[0] >= 159
