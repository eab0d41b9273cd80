"""Turn what a call waits for into requests to an MCP client, and the client's answers into commands. Pure.

An approval becomes a form with one checkbox. A question that the tool itself asks is passed on unchanged.
"""

from typing import Literal, cast

import msgspec

from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import Answer, Approve, Deny
from toolyard.core.conversation.events import CallJudged, CallParked, Reply
from toolyard.core.items import Call, Problem
from toolyard.core.json_types import Json, is_object
from toolyard.core.tools.mcp_servers import INPUT_RESPONSES
from toolyard.surfaces.mcp.client import Peer

ELICIT = "elicitation/create"
APPROVAL = "approval"
QUESTION = "question"
MAX_SHOWN_CHARS = 2000
"""How much of a call's arguments is shown to the person who approves the call."""
_REPLIES: dict[object, Reply] = {"accept": "accepted", "decline": "declined", "cancel": "cancelled"}

WaitEvent = CallJudged | CallParked
"""The event at which a call waits: for an approval, or for the answer to a question."""
Replies = dict[str, Json | None]
"""The client's answers by the name of the question; None where it answered with an error."""


def build_client_requests(wait: WaitEvent, call: Call, line: int = 0) -> dict[str, Json]:
    """Return the requests to send to the client, by name. A call that a program makes has the line that makes it."""
    if isinstance(wait, CallJudged):
        return {APPROVAL: _build_approval_request(call, line)}
    requests = wait.question.get("requests")
    if isinstance(requests, dict) and requests:
        return cast(dict[str, Json], requests)
    params = {name: value for name, value in wait.question.items() if name not in ("server", "problem", "requests")}
    if problem := wait.question.get("problem"):
        params["message"] = f"{params.get('message', '')}\n({problem})"
    return {QUESTION: {"method": ELICIT, "params": params}}


def build_command(wait: WaitEvent, call: Call, replies: Replies, by: Caller) -> Approve | Deny | Answer:
    """Return the command for the client's answers. An error in place of an answer counts as cancelled."""
    if isinstance(wait, CallJudged):
        return _parse_decision(call.id, replies.get(APPROVAL), by)
    requests = build_client_requests(wait, call)
    if [request.get("method") for request in requests.values()] == [ELICIT]:
        reply = next(iter(replies.values())) or {}
        return Answer(by=by, call_id=call.id, reply=_parse_reply(reply), content=_read_content(reply))
    responses: Json = {name: {"action": "cancel"} if reply is None else reply for name, reply in replies.items()}
    return Answer(by=by, call_id=call.id, content={INPUT_RESPONSES: responses})


def split_answerable(requests: dict[str, Json], peer: Peer) -> tuple[dict[str, Json], Replies, Json]:
    """Split requests into those that the client can answer, replies in its place, and the capabilities that it lacks.

    If only forms cannot be shown and others can be answered, the forms count as dismissed by the user.
    """
    lacking = {
        name: missing
        for name, request in requests.items()
        if (missing := peer.find_missing_capability(str(request.get("method"))))
    }
    answerable = {name: request for name, request in requests.items() if name not in lacking}
    if answerable and all(requests[name].get("method") == ELICIT for name in lacking):
        return answerable, {name: {"action": "cancel"} for name in lacking}, {}
    return answerable, {}, {name: value for missing in lacking.values() for name, value in missing.items()}


def collect_replies(requests: dict[str, Json], responses: Json) -> Replies | None:
    """Return the answers to the requests, or None unless all of them are there. Other responses are ignored."""
    replies = {name: responses.get(name) for name in requests}
    if not all(isinstance(reply, dict) for reply in replies.values()):
        return None
    return cast(Replies, replies)


def build_undecided_problem(wait: WaitEvent, call: Call, conversation: str, repeated_tool: str) -> Problem:
    """Return the problem for a client that cannot be asked: it names the routes at which a person can decide.

    `repeated_tool` is the one that the client calls again for the result: `run_code` if a program makes the call.
    """
    path = f"/conversations/{conversation}/calls/{call.id}"
    verb: Literal["approve", "answer"] = "approve" if isinstance(wait, CallJudged) else "answer"
    waits = "waits for a person's approval" if verb == "approve" else "asks a question that only a person can answer"
    if isinstance(wait, CallJudged) and wait.terms is not None:
        waits = f"waits for the approval of {wait.terms.describe_approvers()}"
    return Problem(
        error=f"{call.tool} {waits}, and this client cannot ask for it. Have it decided at POST {path}/{verb} or "
        f"POST {path}/deny on the Toolyard server; then call {repeated_tool} again with the same arguments for the "
        "result",
        error_type="approval_required" if verb == "approve" else "answer_required",
        details={
            "conversation_id": conversation,
            "call_id": call.id,
            "expires_at": wait.expires_at,
            **({"reason": wait.rule} if isinstance(wait, CallJudged) else {"question": wait.question}),
        },
    )


def _build_approval_request(call: Call, line: int) -> Json:
    arguments = msgspec.json.format(msgspec.json.encode(call.arguments)).decode()
    excerpt = arguments
    if len(arguments) > MAX_SHOWN_CHARS:
        excerpt = f"{arguments[:MAX_SHOWN_CHARS]}… ({len(arguments):,} characters in all)"
    box: Json = {"type": "boolean", "title": f"Run {call.tool}", "description": "Leave it empty to refuse."}
    form: Json = {"type": "object", "properties": {"approve": box}, "required": ["approve"]}
    question = f"Line {line} of the program: may" if line else "May"
    message = f"{question} the tool {call.tool} run with these arguments?\n{excerpt}"
    return {"method": ELICIT, "params": {"mode": "form", "message": message, "requestedSchema": form}}


def _parse_decision(call_id: str, reply: Json | None, by: Caller) -> Approve | Deny:
    """Approve only if the form was accepted and its checkbox is true; deny in every other case."""
    if reply is not None and reply.get("action") == "accept" and _read_content(reply).get("approve") is True:
        return Approve(by=by, call_id=call_id)
    dismissed = reply is None or reply.get("action") == "cancel"
    return Deny(by=by, call_id=call_id, reason="the question was dismissed" if dismissed else "")


def _parse_reply(reply: Json) -> Reply:
    return _REPLIES.get(reply.get("action"), "cancelled")


def _read_content(reply: Json) -> Json:
    content = reply.get("content")
    return content if is_object(content) else {}
