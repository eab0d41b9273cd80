"""How a server of the new era says that a tool wanted to ask by a request of its own, which there is none of. Pure."""

import re

from toolyard.core.ports import Failure
from toolyard.venues.mcp.calls.content import parse_call_result
from toolyard.venues.mcp.outcomes import ErrorReply, ResultReply, ServerReply

_CANNOT_ASK = re.compile(r"no back-channel|server-initiated requests are not available", re.IGNORECASE)
"""The words of the official SDKs of Python and of Ruby. Another server's error is an error like any other."""


def find_push_error(answer: ServerReply) -> str:
    """Return the error text of a call that failed because its tool cannot ask in the new era; empty for any other."""
    match answer:
        case ErrorReply(message=message, modern=True):
            text = message
        case ResultReply(raw={"isError": True} as raw, modern=True):
            failed = parse_call_result(raw)
            text = failed.problem.error if isinstance(failed, Failure) else ""
        case _:
            return ""
    return text if _CANNOT_ASK.search(text) else ""
