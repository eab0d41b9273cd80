"""A mailbox: mails are found before they are read, answered or moved."""

from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from toolyard import ToolError, tool

Folder = Literal["inbox", "sent", "archive", "spam", "trash"]
Address = Annotated[str, Field(description="E-mail address of the recipient", json_schema_extra={"format": "email"})]


class Mail(NamedTuple):
    sender: str
    name: str
    subject: str
    body: str
    folder: Folder
    read: bool


MAILS: dict[str, Mail] = {}


def reset() -> None:
    MAILS.clear()
    draft = "Here is the draft of the budget. Please comment by Friday."
    MAILS["m1"] = Mail("sarah.lee@acme.com", "Sarah Lee", "Budget draft", draft, "inbox", False)
    invoice = "Your invoice of 42.50 EUR is due on the 30th."
    MAILS["m2"] = Mail("billing@cloudhost.io", "CloudHost", "Invoice 2291", invoice, "inbox", False)
    hike = "Are you coming along on Saturday? We meet at 8."
    MAILS["m3"] = Mail("tom@baker.net", "Tom Baker", "Weekend hike", hike, "inbox", True)
    MAILS["m4"] = Mail("newsletter@shoes.example", "Shoe World", "50% off sneakers", "Only today!", "inbox", False)
    closed = "The office is closed from Dec 24 to Jan 1."
    MAILS["m5"] = Mail("hr@acme.com", "Human Resources", "Holiday calendar", closed, "archive", True)


def _mail(key: str) -> Mail:
    if key not in MAILS:
        raise ToolError(f"no e-mail {key!r}", "not_found")
    return MAILS[key]


@tool(read_only=True, examples=["any new mail?", "find the email from Sarah about the budget"])
def search_emails(
    query: Annotated[str | None, Field(description="Words in the subject, the text or the sender's name")] = None,
    folder: Folder = "inbox",
    unread_only: bool = False,
) -> list[dict[str, object]]:
    """Search the mailbox for e-mails."""
    words = (query or "").lower().split()
    return [
        {"email_id": key, "from": mail.name, "subject": mail.subject, "read": mail.read}
        for key, mail in MAILS.items()
        if mail.folder == folder
        and not (unread_only and mail.read)
        and all(word in f"{mail.name} {mail.sender} {mail.subject} {mail.body}".lower() for word in words)
    ]


@tool(read_only=True, sources={"email_id": "search_emails"})
def read_email(email_id: str) -> dict[str, object]:
    """Open an e-mail and show its full text."""
    mail = _mail(email_id)
    MAILS[email_id] = mail._replace(read=True)
    return {"from": mail.name, "subject": mail.subject, "body": mail.body}


@tool(examples=["send an email to bob@example.com with the subject Hello saying see you soon"])
def send_email(
    to: Address, subject: str, body: str, cc: Annotated[str | None, Field(description="Copy to this address")] = None
) -> dict[str, object]:
    """Write and send a new e-mail."""
    MAILS[f"m{len(MAILS) + 1}"] = Mail("me", "me", subject, body, "sent", True)
    return {"sent": True, "to": to, "subject": subject}


@tool(sources={"email_id": "search_emails"})
def reply_to_email(
    email_id: str, body: Annotated[str, Field(description="The text of the answer")]
) -> dict[str, object]:
    """Reply to an e-mail."""
    mail = _mail(email_id)
    return {"sent": True, "to": mail.sender, "subject": f"Re: {mail.subject}"}


@tool(sources={"email_id": "search_emails"})
def move_email(email_id: str, folder: Folder) -> dict[str, object]:
    """Move an e-mail to another folder, for example to archive it or to delete it (trash)."""
    MAILS[email_id] = _mail(email_id)._replace(folder=folder)
    return {"moved": MAILS[email_id].subject, "folder": folder}


@tool(read_only=True)
def count_unread(folder: Folder = "inbox") -> int:
    """How many unread e-mails there are."""
    return sum(1 for mail in MAILS.values() if mail.folder == folder and not mail.read)


TOOLS = (search_emails, read_email, send_email, reply_to_email, move_email, count_unread)
