"""Recognizes a tool that failed in the new era because it asks by a request of its own, which that era lacks. Pure."""

import re

from toolyard.core.ports import Failure
from toolyard.venues.mcp.calls.content import parse_call_result
from toolyard.venues.mcp.outcomes import ErrorReply, ResultReply, ServerReply

_CANNOT_ASK = re.compile(r"no back-channel|server-initiated requests are not available", re.IGNORECASE)
"""The error texts of the official SDKs of Python and of Ruby. An error with another text is treated like any other."""


def find_push_error(answer: ServerReply) -> str:
    """Return the error text of a call that failed because its tool cannot ask in the new era; empty for any other."""
    match answer:
        case ErrorReply(message=message, modern=True):
            text = message
        case ResultReply(raw={"isError": True} as raw, modern=True):
            outcome = parse_call_result(raw)
            text = outcome.problem.error if isinstance(outcome, Failure) else ""
        case _:
            return ""
    return text if _CANNOT_ASK.search(text) else ""
