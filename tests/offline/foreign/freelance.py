"""Time tracking and invoices: clients are free text, an invoice is found in the list of them."""

from datetime import date
from typing import Annotated, Literal, NamedTuple, TypedDict

from pydantic import Field

from offline.clock import TODAY, in_days
from toolyard import ToolError, tool

Status = Literal["draft", "sent", "paid", "overdue"]


class Hours(NamedTuple):
    client: str
    day: date
    hours: float


class Invoice(TypedDict):
    client: str
    amount: float
    status: Status
    due: date | None


TIMER: dict[str, str | None] = {}
HOURS: list[Hours] = []
INVOICES: dict[str, Invoice] = {}


def reset() -> None:
    TIMER.update({"client": "Globex", "task": "code review"})
    HOURS[:] = [Hours("Acme", TODAY.replace(day=1), 6.0), Hours("Acme", TODAY, 2.5), Hours("Globex", TODAY, 4.0)]
    INVOICES.clear()
    INVOICES["INV-001"] = {"client": "Acme", "amount": 1850.0, "status": "sent", "due": in_days(10)}
    INVOICES["INV-002"] = {"client": "Globex", "amount": 640.0, "status": "sent", "due": in_days(4)}
    INVOICES["INV-003"] = {"client": "Initech", "amount": 2300.0, "status": "overdue", "due": in_days(-6)}
    INVOICES["INV-004"] = {"client": "Globex", "amount": 400.0, "status": "paid", "due": in_days(-30)}


@tool
def start_timer(
    client: Annotated[str, Field(description="Name of the client you work for")],
    task: Annotated[str | None, Field(description="What you are working on")] = None,
) -> dict[str, object]:
    """Start the timer: begin to track time for a client."""
    TIMER.update({"client": client, "task": task})
    return {"running": True, "client": client, "task": task}


@tool
def stop_timer() -> dict[str, object]:
    """Stop the running timer and save the time."""
    return {"running": False, "client": TIMER["client"], "hours": 1.25}


@tool(examples=["log 2 hours for Umbrella", "I worked 5 hours for Hooli on Monday"])
def log_hours(
    client: Annotated[str, Field(description="Name of the client")],
    hours: Annotated[float, Field(gt=0, le=24)],
    day: Annotated[date | None, Field(description="The day of the work, today if left out")] = None,
    note: str = "",
) -> dict[str, object]:
    """Log hours worked for a client."""
    HOURS.append(Hours(client, day or TODAY, hours))
    return {"client": client, "hours": hours, "day": (day or TODAY).isoformat()}


@tool(read_only=True)
def get_hours(
    client: Annotated[str | None, Field(description="Name of the client; all if left out")] = None,
    month: Annotated[
        str | None, Field(pattern=r"^\d{4}-\d{2}$", description="Month such as 2026-03; the current one if left out")
    ] = None,
) -> dict[str, object]:
    """Tell how many hours were worked in a month."""
    month = month or TODAY.strftime("%Y-%m")
    hours = [
        hour.hours
        for hour in HOURS
        if (client is None or hour.client.lower() == client.lower()) and hour.day.strftime("%Y-%m") == month
    ]
    return {"client": client, "month": month, "hours": sum(hours)}


@tool
def create_invoice(
    client: Annotated[str, Field(description="Name of the client")],
    amount: Annotated[float, Field(gt=0, description="Amount in euros")],
    due: Annotated[date | None, Field(description="Payment is due on this day")] = None,
) -> dict[str, object]:
    """Create an invoice for a client."""
    INVOICES["INV-005"] = {"client": client, "amount": amount, "status": "draft", "due": due}
    return {"invoice_number": "INV-005", "client": client, "amount": amount, "due": due.isoformat() if due else None}


@tool(read_only=True)
def list_invoices(
    status: Status | None = None,
    client: Annotated[str | None, Field(description="Only the invoices of this client")] = None,
) -> list[dict[str, object]]:
    """List invoices, by status or by client."""
    return [
        {"invoice_number": key, **invoice, "due": invoice["due"].isoformat() if invoice["due"] else None}
        for key, invoice in INVOICES.items()
        if (status is None or invoice["status"] == status)
        and (client is None or invoice["client"].lower() == client.lower())
    ]


@tool(sources={"invoice_number": "list_invoices"}, examples=["Hooli has paid", "mark invoice INV-017 as paid"])
def mark_invoice_paid(invoice_number: Annotated[str, Field(pattern=r"^INV-\d{3}$")]) -> dict[str, object]:
    """Mark an invoice as paid."""
    if invoice_number not in INVOICES:
        raise ToolError(f"there is no invoice {invoice_number}", "not_found")
    INVOICES[invoice_number]["status"] = "paid"
    return {"invoice_number": invoice_number, "status": "paid"}


TOOLS = (start_timer, stop_timer, log_hours, get_hours, create_invoice, list_invoices, mark_invoice_paid)
