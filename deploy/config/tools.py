"""A first tool. Replace it with your own."""

from toolyard import tool

HOURS = {"saturday": "10 to 14", "sunday": "closed"}


@tool(read_only=True, examples=["when are you open on {day}"])
def opening_hours(day: str) -> str:
    """Return the opening hours of a day of the week."""
    return HOURS.get(day.lower(), "9 to 18")
