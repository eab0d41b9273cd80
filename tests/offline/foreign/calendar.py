"""A calendar: events are found by their title before they are moved or cancelled."""

from datetime import date, datetime, time, timedelta
from typing import Annotated, TypedDict

from pydantic import Field

from offline.clock import TODAY, in_days
from toolyard import ToolError, tool


class Event(TypedDict):
    title: str
    start: datetime
    minutes: int
    location: str | None


EVENTS: dict[str, Event] = {}


def _at(days: int, hour: int, minute: int = 0) -> datetime:
    return datetime.combine(in_days(days), time(hour, minute))


def reset() -> None:
    EVENTS.clear()
    EVENTS["ev-101"] = {"title": "Team standup", "start": _at(1, 9, 30), "minutes": 15, "location": "Zoom"}
    EVENTS["ev-102"] = {"title": "Lunch with Sarah", "start": _at(1, 12, 30), "minutes": 60, "location": "Bistro Nord"}
    EVENTS["ev-103"] = {"title": "Dentist", "start": _at(2, 15), "minutes": 45, "location": "Dr. Keller"}
    EVENTS["ev-104"] = {"title": "Quarterly review", "start": _at(4, 14), "minutes": 120, "location": "Room 4"}
    EVENTS["ev-105"] = {"title": "Yoga class", "start": _at(0, 19), "minutes": 60, "location": "Studio 5"}


def _event(key: str) -> dict[str, object]:
    event = EVENTS.get(key)
    if event is None:
        raise ToolError(f"no event {key!r}", "not_found")
    return {"event_id": key, **event, "start": event["start"].isoformat(timespec="minutes")}


@tool(read_only=True, examples=["what's on my calendar tomorrow?", "do I have anything on Friday?"])
def list_events(
    day: Annotated[date | None, Field(description="The day to show; today if left out")] = None,
) -> list[dict[str, object]]:
    """List the events of one day in the calendar."""
    day = day or TODAY
    return [_event(key) for key, event in EVENTS.items() if event["start"].date() == day]


@tool(read_only=True)
def find_events(query: Annotated[str, Field(description="Words from the event's title")]) -> list[dict[str, object]]:
    """Find upcoming events by their title."""
    words = query.lower().split()
    return [_event(key) for key, event in EVENTS.items() if all(word in event["title"].lower() for word in words)]


@tool(examples=["schedule a meeting with Bob tomorrow at 10"])
def create_event(
    title: str,
    start: Annotated[datetime, Field(description="When it begins, ISO 8601")],
    duration_minutes: Annotated[int, Field(ge=5, le=1440)] = 60,
    location: str | None = None,
) -> dict[str, object]:
    """Create a new event in the calendar."""
    key = f"ev-{101 + len(EVENTS)}"
    EVENTS[key] = {"title": title, "start": start, "minutes": duration_minutes, "location": location}
    return _event(key)


@tool(sources={"event_id": "find_events"})
def move_event(event_id: str, new_start: datetime) -> dict[str, object]:
    """Reschedule an event to another time."""
    _event(event_id)
    EVENTS[event_id]["start"] = new_start
    return _event(event_id)


@tool(sources={"event_id": "find_events"})
def cancel_event(event_id: Annotated[str, Field(description="The id of the event, e.g. ev-101")]) -> str:
    """Cancel an event and remove it from the calendar."""
    event = _event(event_id)
    del EVENTS[event_id]
    return f"{event['title']} was cancelled"


@tool(read_only=True)
def find_free_time(
    day: date, minutes: Annotated[int, Field(description="How long the slot must be")] = 30
) -> list[str]:
    """Find free slots in the calendar on a given day."""
    busy = [
        (event["start"], event["start"] + timedelta(minutes=event["minutes"]))
        for event in EVENTS.values()
        if event["start"].date() == day
    ]
    hours = [datetime.combine(day, time(hour)) for hour in range(9, 18)]
    duration = timedelta(minutes=minutes)
    return [f"{hour:%H:%M}" for hour in hours if all(hour + duration <= start or hour >= end for start, end in busy)]


TOOLS = (list_events, find_events, create_event, move_event, cancel_event, find_free_time)
