"""A log of workouts, weight, water and habits: what was done is told, not asked for."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Literal, TypedDict

from pydantic import Field

from offline.clock import TODAY, in_days
from toolyard import tool

Habit = Literal["meditate", "read", "stretch", "journal"]


class Activity(StrEnum):
    running = "running"
    cycling = "cycling"
    swimming = "swimming"
    yoga = "yoga"
    strength = "strength"
    walking = "walking"


class Workout(TypedDict):
    day: date
    activity: str
    minutes: int
    distance_km: float | None


WORKOUTS: list[Workout] = []
HABITS: dict[Habit, int] = {}
GLASSES: list[int] = []


def reset() -> None:
    WORKOUTS[:] = [
        {"day": in_days(-1), "activity": "running", "minutes": 35, "distance_km": 6.0},
        {"day": in_days(-3), "activity": "swimming", "minutes": 40, "distance_km": 1.5},
        {"day": in_days(-4), "activity": "strength", "minutes": 50, "distance_km": None},
        {"day": in_days(-8), "activity": "swimming", "minutes": 30, "distance_km": 1.0},
    ]
    HABITS.update({"meditate": 9, "read": 4, "stretch": 0, "journal": 21})
    GLASSES[:] = [3]


@tool(examples=["I ran 8 km in 45 minutes", "log an hour of yoga"])
def log_workout(
    activity: Activity,
    minutes: Annotated[int, Field(ge=1, le=600, description="How long it took, in minutes")],
    distance_km: Annotated[float | None, Field(description="Distance in kilometres")] = None,
    day: Annotated[date | None, Field(description="Day of the workout, today if left out")] = None,
) -> dict[str, object]:
    """Log a workout."""
    done: Workout = {"day": day or TODAY, "activity": activity.value, "minutes": minutes, "distance_km": distance_km}
    WORKOUTS.append(done)
    return {**done, "day": done["day"].isoformat()}


@tool
def log_weight(
    kg: Annotated[float, Field(gt=20, lt=300, description="Body weight in kilograms")],
    day: Annotated[date | None, Field(description="Day of the measurement, today if left out")] = None,
) -> dict[str, object]:
    """Record your body weight."""
    return {"day": (day or TODAY).isoformat(), "kg": kg}


@tool
def log_water(glasses: Annotated[int, Field(ge=1, description="How many glasses")] = 1) -> dict[str, int]:
    """Log glasses of water you drank today."""
    GLASSES.append(glasses)
    return {"glasses_today": sum(GLASSES)}


@tool(examples=["I did my journal", "tick off stretching"])
def mark_habit(habit: Habit, day: date | None = None) -> dict[str, object]:
    """Mark a habit as done for a day (today if no day is given)."""
    HABITS[habit] += 1
    return {"habit": habit, "day": (day or TODAY).isoformat(), "streak": HABITS[habit]}


@tool(read_only=True)
def get_habit_streak(habit: Habit) -> dict[str, object]:
    """Get the streak of a habit: how many days in a row it was done."""
    return {"habit": habit, "days_in_a_row": HABITS[habit]}


@tool(read_only=True)
def list_workouts(activity: Activity | None = None, since: date | None = None) -> list[dict[str, object]]:
    """List past workouts, newest first."""
    return [
        {**workout, "day": workout["day"].isoformat()}
        for workout in WORKOUTS
        if (activity is None or workout["activity"] == activity.value) and (since is None or workout["day"] >= since)
    ]


@tool
def set_goal(
    metric: Literal["weekly_minutes", "weekly_km", "daily_steps"],
    value: Annotated[int, Field(gt=0)],
) -> dict[str, object]:
    """Set a fitness goal."""
    return {"goal": metric, "value": value}


TOOLS = (log_workout, log_weight, log_water, mark_habit, get_habit_streak, list_workouts, set_goal)
