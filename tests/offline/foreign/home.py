"""A smart home: rooms are a Python enum, doors a choice, and unlocking one needs a yes."""

from enum import StrEnum
from typing import Annotated, Literal, TypedDict

from pydantic import Field

from toolyard import tool

Door = Literal["front", "back", "garage"]


class Room(StrEnum):
    living_room = "living_room"
    kitchen = "kitchen"
    bedroom = "bedroom"
    bathroom = "bathroom"
    hallway = "hallway"
    office = "office"


class State(TypedDict):
    light: Literal["on", "off"]
    brightness: int
    temperature: float
    blinds: str


ROOMS: dict[str, State] = {}
DOORS: dict[Door, Literal["locked", "unlocked"]] = {}


def reset() -> None:
    for room in Room:
        ROOMS[room.value] = {"light": "off", "brightness": 0, "temperature": 20.0, "blinds": "open"}
    DOORS.update({"front": "locked", "back": "unlocked", "garage": "locked"})


@tool
def switch_light(room: Room, on: Annotated[bool, Field(description="true to turn it on, false to turn it off")]) -> str:
    """Turn the light in a room on or off."""
    ROOMS[room.value]["light"] = "on" if on else "off"
    return f"{room.value} light is {'on' if on else 'off'}"


@tool(examples=["dim the bedroom to 30%"])
def dim_light(room: Room, brightness: Annotated[int, Field(ge=1, le=100, description="Percent")]) -> str:
    """Set the brightness of the light in a room."""
    ROOMS[room.value].update({"light": "on", "brightness": brightness})
    return f"{room.value} light is at {brightness}%"


@tool
def set_temperature(room: Room, celsius: Annotated[float, Field(ge=5, le=30)]) -> str:
    """Set the thermostat of a room."""
    ROOMS[room.value]["temperature"] = celsius
    return f"{room.value} is set to {celsius} °C"


@tool
def set_blinds(room: Room, position: Literal["open", "closed", "half"]) -> str:
    """Open or close the blinds of a room."""
    ROOMS[room.value]["blinds"] = position
    return f"{room.value} blinds: {position}"


@tool
def lock_door(door: Door) -> str:
    """Lock a door."""
    DOORS[door] = "locked"
    return f"{door} door is locked"


@tool(approval="ask")
def unlock_door(door: Door) -> str:
    """Unlock a door."""
    DOORS[door] = "unlocked"
    return f"{door} door is unlocked"


@tool(read_only=True)
def get_home_status(room: Annotated[Room | None, Field(description="Only this room")] = None) -> dict[str, object]:
    """Show the state of lights, temperature, blinds and doors."""
    if room is not None:
        return {**ROOMS[room.value]}
    return {"rooms": ROOMS, "doors": DOORS}


TOOLS = (switch_light, dim_light, set_temperature, set_blinds, lock_door, unlock_door, get_home_status)
