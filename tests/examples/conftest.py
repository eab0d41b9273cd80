"""No example's test sees the files or the accounts of whoever runs it."""

from pathlib import Path

import pytest

CONNECTIONS = (
    "NOTION_TOKEN",
    "NOTION_BASE_URL",
    "NOTION_GROCERIES_DATABASE",
    "NOTION_TASKS_DATABASE",
    "NOTION_EVENTS_DATABASE",
    "NOTION_EXPENSES_DATABASE",
    "HA_URL",
    "HA_TOKEN",
)


@pytest.fixture(autouse=True)
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The household's file, not yet made; nothing else is connected."""
    for variable in CONNECTIONS:
        monkeypatch.delenv(variable, raising=False)
    path = tmp_path / "data" / "household.db"
    monkeypatch.setenv("HOUSEHOLD_DB", str(path))
    return path


@pytest.fixture(autouse=True)
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The warehouse's file, not yet made."""
    path = tmp_path / "data" / "warehouse.db"
    monkeypatch.setenv("WAREHOUSE_DB", str(path))
    return path
