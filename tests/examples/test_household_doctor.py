"""`toolyard doctor` says whether the household's Notion can be used, before somebody needs it."""

import asyncio
from pathlib import Path

import pytest

from cli.process import run_toolyard
from examples.loading import EXAMPLES
from examples.strict_notion import SCHEMAS, TOKEN, StrictNotion

NOTION = {
    "NOTION_TOKEN": TOKEN,
    "NOTION_GROCERIES_DATABASE": "database-of-groceries",
    "NOTION_TASKS_DATABASE": "database-of-tasks",
    "NOTION_EVENTS_DATABASE": "database-of-events",
    "NOTION_EXPENSES_DATABASE": "database-of-expenses",
}
TWO_COLUMNS_WRONG = {**SCHEMAS, "groceries": {"Item": "title", "Qty": "rich_text", "Status": "status"}}


def examine(folder: Path, notion: StrictNotion, **variables: str) -> tuple[int, list[str]]:
    """Return the exit code of `toolyard doctor` and its lines about Notion."""

    async def run() -> tuple[int, list[str]]:
        async with notion.serving() as base_url:
            environment = {**NOTION, "NOTION_BASE_URL": base_url, **variables}
            config = str(EXAMPLES / "household" / "toolyard.toml")
            done = await asyncio.to_thread(
                run_toolyard, folder, "doctor", "--config", config, "--port", "0", **environment
            )
        assert TOKEN not in done.out
        return done.code, [line for line in done.out.splitlines() if line[2:8] == "notion"]

    return asyncio.run(run())


def test_a_notion_that_can_be_used_is_well_for_each_database(tmp_path: Path) -> None:
    notion = StrictNotion()
    code, findings = examine(tmp_path, notion)
    assert code == 0, findings
    assert [line[0] for line in findings] == ["✓"] * 5
    assert "the token is taken" in findings[0]
    assert notion.refusals == [] and notion.pages == []


@pytest.mark.parametrize(
    ("schemas", "variables", "complaint"),
    [
        (SCHEMAS, {"NOTION_TOKEN": "ntn_wrong"}, "NOTION_TOKEN: Notion refused: API token is invalid."),
        (SCHEMAS, {"NOTION_BASE_URL": "http://127.0.0.1:9"}, "NOTION_TOKEN: Notion cannot be reached"),
        (SCHEMAS, {"NOTION_TASKS_DATABASE": "elsewhere"}, "NOTION_TASKS_DATABASE: Notion refused: Could not find"),
        (TWO_COLUMNS_WRONG, {}, "NOTION_GROCERIES_DATABASE: it needs Qty (number), Unit (text or select)"),
    ],
)
def test_what_is_wrong_with_notion_is_said_with_the_variable_to_look_at(
    schemas: dict[str, dict[str, str]], variables: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    code, findings = examine(tmp_path, StrictNotion(schemas=schemas), **variables)
    assert code == 1
    (finding,) = [line for line in findings if line.startswith("✗")]
    assert complaint in finding


def test_a_database_that_is_not_set_is_mentioned_and_no_fault(tmp_path: Path) -> None:
    code, findings = examine(tmp_path, StrictNotion(), NOTION_EVENTS_DATABASE="")
    assert code == 0
    assert [line for line in findings if "NOTION_EVENTS_DATABASE is not set" in line]


def test_without_a_token_the_lists_are_in_the_file(tmp_path: Path) -> None:
    code, findings = examine(tmp_path, StrictNotion(), NOTION_TOKEN="", HOUSEHOLD_DB=str(tmp_path / "h.db"))
    assert code == 0
    assert findings == [f"✓ notion    not connected: everything is kept in {tmp_path / 'h.db'}"]
