"""Converters, a calculator and a forecast: nothing is kept."""

import ast
from collections.abc import Callable
from datetime import date, timedelta
from typing import Annotated, Literal

from pydantic import Field

from offline.clock import NOW, TODAY
from toolyard import ToolError, tool

RATES = {"USD": 1.0, "EUR": 0.9, "GBP": 0.8, "JPY": 150.0, "CNY": 7.2, "CHF": 0.88}
Currency = Literal["USD", "EUR", "GBP", "JPY", "CNY", "CHF"]
UNITS = {
    "km": ("m", 1000.0),
    "m": ("m", 1.0),
    "mile": ("m", 1609.344),
    "foot": ("m", 0.3048),
    "inch": ("m", 0.0254),
    "cm": ("m", 0.01),
    "kg": ("g", 1000.0),
    "g": ("g", 1.0),
    "pound": ("g", 453.592),
    "ounce": ("g", 28.3495),
    "liter": ("l", 1.0),
    "gallon": ("l", 3.78541),
}
Unit = Literal[
    "km", "m", "mile", "foot", "inch", "cm", "kg", "g", "pound", "ounce", "liter", "gallon", "celsius", "fahrenheit"
]
WEATHER = {
    "paris": (14, "cloudy"),
    "london": (11, "rain"),
    "tokyo": (19, "sunny"),
    "berlin": (7, "rain"),
    "new york": (9, "windy"),
    "beijing": (5, "clear"),
}
ZONES = {"paris": 1, "london": 0, "tokyo": 9, "berlin": 1, "new york": -5, "beijing": 8}
OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
}


def reset() -> None:
    """There is nothing to set back."""


@tool(read_only=True, examples=["how much is 100 dollars in euros?"])
def convert_currency(amount: float, from_currency: Currency, to_currency: Currency) -> dict[str, object]:
    """Convert an amount of money from one currency to another."""
    return {"amount": round(amount / RATES[from_currency] * RATES[to_currency], 2), "currency": to_currency}


@tool(read_only=True)
def convert_units(value: float, from_unit: Unit, to_unit: Unit) -> dict[str, object]:
    """Convert a length, weight, volume or temperature into another unit."""
    if from_unit == "celsius" and to_unit == "fahrenheit":
        return {"value": round(value * 9 / 5 + 32, 2), "unit": to_unit}
    if from_unit == "fahrenheit" and to_unit == "celsius":
        return {"value": round((value - 32) * 5 / 9, 2), "unit": to_unit}
    a, b = UNITS.get(from_unit), UNITS.get(to_unit)
    if a is None or b is None or a[0] != b[0]:
        raise ToolError(f"cannot convert {from_unit} to {to_unit}", "validation_error")
    return {"value": round(value * a[1] / b[1], 4), "unit": to_unit}


@tool(read_only=True, examples=["what's the weather like in Rome?", "will it rain in Oslo tomorrow?"])
def get_weather(
    city: str, day: Annotated[date | None, Field(description="YYYY-MM-DD; today if left out")] = None
) -> dict[str, object]:
    """Get the weather forecast for a city."""
    if city.lower() not in WEATHER:
        raise ToolError(f"no forecast for {city}", "not_found")
    degrees, sky = WEATHER[city.lower()]
    return {"city": city, "day": (day or TODAY).isoformat(), "temperature": degrees, "sky": sky}


@tool(read_only=True)
def get_time(city: str) -> str:
    """What time it is now in a city of the world."""
    if city.lower() not in ZONES:
        raise ToolError(f"no time zone for {city}", "not_found")
    return (NOW + timedelta(hours=ZONES[city.lower()])).strftime("%H:%M")


@tool(read_only=True)
def calculate(expression: Annotated[str, Field(description="An arithmetic expression such as 12 * (3 + 4)")]) -> float:
    """Work out an arithmetic expression."""
    return _value(ast.parse(expression, mode="eval").body)


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case _:
            raise ToolError("not an arithmetic expression", "validation_error")


@tool(read_only=True)
def split_bill(
    total: Annotated[float, Field(gt=0)],
    people: Annotated[int, Field(ge=1, description="How many people share it")],
    tip_percent: Annotated[float, Field(ge=0, le=100)] = 0,
) -> dict[str, float]:
    """Split a restaurant bill between people, with a tip."""
    return {"per_person": round(total * (1 + tip_percent / 100) / people, 2)}


@tool(examples=["set a timer for 10 minutes"])
def set_timer(
    minutes: Annotated[int, Field(ge=1)], label: Annotated[str | None, Field(description="What it is for")] = None
) -> str:
    """Start a countdown timer."""
    return f"timer for {minutes} minutes" + (f" ({label})" if label else "")


TOOLS = (convert_currency, convert_units, get_weather, get_time, calculate, split_bill, set_timer)
