"""Flights and bookings: towns, days, a cabin, and codes of a fixed shape."""

from datetime import date
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from offline.clock import in_days
from toolyard import ToolError, tool

BookingCode = Annotated[str, Field(pattern=r"^[A-Z]{2}\d{4}$", description="Booking code such as XY1234")]
FlightNumber = Annotated[str, Field(pattern=r"^[A-Z]{2}\d{2,4}$", description="Flight number such as LH400")]


class Flight(NamedTuple):
    flight_number: str
    origin: str
    destination: str
    departs: str
    price: float

    def row(self) -> dict[str, object]:
        ways = {"flight_number": self.flight_number, "from": self.origin, "to": self.destination}
        return {**ways, "departs": self.departs, "price": self.price}


FLIGHTS = (
    Flight("TP533", "Berlin", "Lisbon", "06:50", 119.0),
    Flight("EW8520", "Berlin", "Lisbon", "13:15", 164.0),
    Flight("FR1142", "Berlin", "Rome", "09:05", 89.0),
    Flight("AZ425", "Berlin", "Rome", "17:40", 210.0),
    Flight("BA117", "London", "New York", "08:25", 540.0),
    Flight("AF1204", "Paris", "Rome", "10:10", 132.0),
)
TRIPS: dict[str, dict[str, object]] = {}


def reset() -> None:
    TRIPS.clear()
    rows = (
        ("AB1234", "LH1172", "Frankfurt", "Lisbon", in_days(9), "21B"),
        ("CD5678", "FR1142", "Berlin", "Rome", in_days(1), None),
    )
    for code, number, origin, destination, day, seat in rows:
        trip = {"flight_number": number, "from": origin, "to": destination, "day": day.isoformat()}
        TRIPS[code] = {**trip, "passenger": "Anna Schmidt", "seat": seat, "checked_in": False}


def _trip(code: str) -> dict[str, object]:
    if code not in TRIPS:
        raise ToolError(f"there is no booking {code}", "not_found")
    return {"booking_code": code, **TRIPS[code]}


@tool(read_only=True, examples=["flights from Vienna to Oslo tomorrow", "find a flight to Madrid from Paris on May 3"])
def search_flights(
    origin: Annotated[str, Field(description="City of departure")],
    destination: Annotated[str, Field(description="City of arrival")],
    day: Annotated[date, Field(description="Day of departure")],
    cabin: Literal["economy", "business", "first"] = "economy",
    max_price: Annotated[float | None, Field(description="Highest price in euros")] = None,
) -> list[dict[str, object]]:
    """Search flights between two cities on a day."""
    factor = {"economy": 1, "business": 3, "first": 6}[cabin]
    return [
        {**flight.row(), "day": day.isoformat(), "cabin": cabin, "price": flight.price * factor}
        for flight in FLIGHTS
        if flight.origin.lower() == origin.lower()
        and flight.destination.lower() == destination.lower()
        and (max_price is None or flight.price * factor <= max_price)
    ]


@tool(sources={"flight_number": "search_flights"})
def book_flight(
    flight_number: FlightNumber,
    passenger: Annotated[str, Field(description="Full name of the passenger")],
) -> dict[str, object]:
    """Book a seat on a flight for a passenger."""
    for flight in FLIGHTS:
        if flight.flight_number == flight_number:
            day = in_days(1).isoformat()
            TRIPS["EF9012"] = {**flight.row(), "day": day, "passenger": passenger, "seat": None, "checked_in": False}
            booked = {"booking_code": "EF9012", "flight_number": flight_number, "passenger": passenger}
            return {**booked, "price": flight.price}
    raise ToolError(f"there is no flight {flight_number}", "not_found")


@tool(read_only=True)
def list_my_bookings() -> list[dict[str, object]]:
    """List the flights you have booked."""
    return [_trip(code) for code in TRIPS]


@tool
def cancel_booking(booking_code: BookingCode) -> str:
    """Cancel a booking."""
    _trip(booking_code)
    del TRIPS[booking_code]
    return f"booking {booking_code} is cancelled"


@tool
def check_in(booking_code: BookingCode) -> dict[str, object]:
    """Check in online for a booked flight."""
    _trip(booking_code)
    TRIPS[booking_code]["checked_in"] = True
    return _trip(booking_code)


@tool
def choose_seat(
    booking_code: BookingCode,
    seat: Annotated[str, Field(pattern=r"^\d{1,2}[A-F]$", description="Row and letter, such as 14C")],
) -> dict[str, object]:
    """Choose or change the seat of a booking."""
    _trip(booking_code)
    TRIPS[booking_code]["seat"] = seat
    return _trip(booking_code)


@tool(read_only=True, examples=["is BA117 delayed?"])
def get_flight_status(flight_number: FlightNumber) -> dict[str, object]:
    """Tell whether a flight is on time, delayed or cancelled."""
    return {"flight_number": flight_number, "status": "delayed", "delay_minutes": 25}


TOOLS = (search_flights, book_flight, list_my_bookings, cancel_booking, check_in, choose_seat, get_flight_status)
