"""The time that requests are made at, which the tools and the model are told alike."""

from datetime import UTC, date, datetime, timedelta

NOW = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
"""A Sunday morning, the same day from Honolulu to Auckland."""
TODAY = NOW.date()


def in_days(days: int) -> date:
    return TODAY + timedelta(days=days)
