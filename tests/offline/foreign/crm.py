"""Customers and their tickets: a customer is found by name, a ticket is known by its number."""

from typing import Annotated, Literal, TypedDict

from pydantic import Field

from toolyard import ToolError, tool

TicketStatus = Literal["open", "pending", "closed"]
Priority = Literal["low", "normal", "high", "urgent"]


class Customer(TypedDict):
    name: str
    company: str
    email: str
    notes: list[str]


class Ticket(TypedDict):
    customer: str
    subject: str
    status: TicketStatus
    priority: Priority


CUSTOMERS: dict[str, Customer] = {}
TICKETS: dict[int, Ticket] = {}


def reset() -> None:
    CUSTOMERS.clear()
    TICKETS.clear()
    rows = (
        ("Maria Rossi", "Rossi Foods", "maria@rossifoods.it"),
        ("John Miller", "Miller & Sons", "john@millersons.com"),
        ("Aiko Tanaka", "Tanaka Design", "aiko@tanaka.jp"),
        ("Peter Novak", "Globex", "p.novak@globex.com"),
    )
    for number, (name, company, email) in enumerate(rows, 1001):
        CUSTOMERS[f"C-{number}"] = {"name": name, "company": company, "email": email, "notes": []}
    TICKETS[501] = {"customer": "C-1001", "subject": "Invoice shows wrong VAT", "status": "open", "priority": "high"}
    TICKETS[502] = {"customer": "C-1002", "subject": "Cannot log in", "status": "pending", "priority": "normal"}
    TICKETS[503] = {"customer": "C-1004", "subject": "Printer driver missing", "status": "open", "priority": "low"}
    TICKETS[504] = {"customer": "C-1001", "subject": "Delivery was late", "status": "closed", "priority": "normal"}


def _customer(key: str) -> Customer:
    if key not in CUSTOMERS:
        raise ToolError(f"no customer {key!r}", "not_found")
    return CUSTOMERS[key]


@tool(read_only=True, examples=["find customer Smith"])
def find_customers(query: Annotated[str, Field(description="Name, company or e-mail")]) -> list[dict[str, str]]:
    """Search for customers in the CRM."""
    words = query.lower().split()
    return [
        {"customer_id": key, "name": customer["name"], "company": customer["company"], "email": customer["email"]}
        for key, customer in CUSTOMERS.items()
        if all(word in f"{customer['name']} {customer['company']} {customer['email']}".lower() for word in words)
    ]


@tool
def add_customer(
    name: str, email: Annotated[str, Field(json_schema_extra={"format": "email"})], company: str | None = None
) -> dict[str, object]:
    """Add a new customer."""
    key = f"C-{1001 + len(CUSTOMERS)}"
    CUSTOMERS[key] = {"name": name, "company": company or "", "email": email, "notes": []}
    return {"customer_id": key, "name": name, "email": email, "company": company}


@tool(sources={"customer_id": "find_customers"}, examples=["open a ticket for Smith: the parcel is lost"])
def create_ticket(
    customer_id: str,
    subject: Annotated[str, Field(description="What it is about, in a few words")],
    priority: Priority = "normal",
) -> dict[str, object]:
    """Open a support ticket for a customer."""
    _customer(customer_id)
    number = max(TICKETS) + 1
    TICKETS[number] = {"customer": customer_id, "subject": subject, "status": "open", "priority": priority}
    return {"ticket_number": number, "subject": subject, "priority": priority}


@tool(read_only=True, sources={"customer_id": "find_customers"})
def list_tickets(
    status: TicketStatus | None = None,
    priority: Priority | None = None,
    customer_id: Annotated[str | None, Field(description="Only tickets of this customer")] = None,
) -> list[dict[str, object]]:
    """List support tickets."""
    return [
        {
            "ticket_number": number,
            "subject": ticket["subject"],
            "status": ticket["status"],
            "priority": ticket["priority"],
        }
        for number, ticket in TICKETS.items()
        if status in (None, ticket["status"])
        and priority in (None, ticket["priority"])
        and customer_id in (None, ticket["customer"])
    ]


@tool
def set_ticket_status(ticket_number: int, status: TicketStatus) -> dict[str, object]:
    """Change the status of a ticket, for example close it."""
    if ticket_number not in TICKETS:
        raise ToolError(f"no ticket {ticket_number}", "not_found")
    TICKETS[ticket_number]["status"] = status
    return {"ticket_number": ticket_number, "status": status}


@tool
def set_ticket_priority(ticket_number: int, priority: Priority) -> dict[str, object]:
    """Change how urgent a ticket is."""
    if ticket_number not in TICKETS:
        raise ToolError(f"no ticket {ticket_number}", "not_found")
    TICKETS[ticket_number]["priority"] = priority
    return {"ticket_number": ticket_number, "priority": priority}


@tool(sources={"customer_id": "find_customers"})
def add_customer_note(customer_id: str, text: str) -> dict[str, object]:
    """Write a note into a customer's record."""
    _customer(customer_id)["notes"].append(text)
    return {"customer": _customer(customer_id)["name"], "note": text}


TOOLS = (
    find_customers,
    add_customer,
    create_ticket,
    list_tickets,
    set_ticket_status,
    set_ticket_priority,
    add_customer_note,
)
