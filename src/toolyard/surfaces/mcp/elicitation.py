"""What a call waits for, as questions to an MCP client; and the client's answers, as commands. Pure.

An approval is asked as a form with one box. A question of the tool's own is passed on as it came.
"""

from typing import Literal, cast

import msgspec

from toolyard.core.caller import Caller
from toolyard.core.commands import Answer, Approve, Deny
from toolyard.core.events import CallJudged, CallParked, Reply
from toolyard.core.items import Call, Problem
from toolyard.core.mcp_servers import INPUT_RESPONSES
from toolyard.surfaces.mcp.client import Peer
from toolyard.surfaces.mcp.jsonrpc import Json

ELICIT = "elicitation/create"
APPROVAL = "approval"
QUESTION = "question"
MAX_SHOWN_CHARS = 2000
"""How much of a call's arguments is shown to somebody who is to approve them."""
_REPLIES: dict[object, Reply] = {"accept": "accepted", "decline": "declined", "cancel": "cancelled"}

WaitEvent = CallJudged | CallParked
"""What a call stopped at."""
Replies = dict[str, Json | None]
"""What a client said to each question; None where it refused to say anything."""


def build_client_requests(wait: WaitEvent, call: Call) -> dict[str, Json]:
    """What the client is to be asked, each under a name of its own."""
    if isinstance(wait, CallJudged):
        return {APPROVAL: _build_approval_request(call)}
    asked = wait.question.get("requests")
    if isinstance(asked, dict) and asked:
        return cast(dict[str, Json], asked)
    params = {name: value for name, value in wait.question.items() if name not in ("server", "problem", "requests")}
    if problem := wait.question.get("problem"):
        params["message"] = f"{params.get('message', '')}\n({problem})"
    return {QUESTION: {"method": ELICIT, "params": params}}


def build_command(wait: WaitEvent, call: Call, replies: Replies, by: Caller) -> Approve | Deny | Answer:
    """What the client's answers come to. One that it refused to give is a cancelled one."""
    if isinstance(wait, CallJudged):
        return _parse_decision(call.id, replies.get(APPROVAL), by)
    asked = build_client_requests(wait, call)
    if [one.get("method") for one in asked.values()] == [ELICIT]:
        said = next(iter(replies.values())) or {}
        return Answer(by=by, call_id=call.id, reply=_parse_reply(said), content=_read_content(said))
    given: Json = {name: {"action": "cancel"} if reply is None else reply for name, reply in replies.items()}
    return Answer(by=by, call_id=call.id, content={INPUT_RESPONSES: given})


def split_answerable(requests: dict[str, Json], peer: Peer) -> tuple[dict[str, Json], Replies, Json]:
    """Of what is asked: what this client can answer, what is answered in its place, and what it lacks for the rest.

    A form that cannot be shown is one that the user did not fill in; it does not keep the client from the others.
    """
    lacking = {
        name: missing
        for name, one in requests.items()
        if (missing := peer.find_missing_capability(str(one.get("method"))))
    }
    can = {name: one for name, one in requests.items() if name not in lacking}
    if can and all(requests[name].get("method") == ELICIT for name in lacking):
        return can, {name: {"action": "cancel"} for name in lacking}, {}
    return can, {}, {name: value for missing in lacking.values() for name, value in missing.items()}


def collect_replies(requests: dict[str, Json], responses: Json) -> Replies | None:
    """The answers to what was asked, if all of them are there; whatever else was sent is left aside."""
    found = {name: responses.get(name) for name in requests}
    if not all(isinstance(reply, dict) for reply in found.values()):
        return None
    return cast(Replies, found)


def build_undecided_problem(wait: WaitEvent, call: Call, conversation: str) -> Problem:
    """What a client is told that cannot be asked: who can decide, and where."""
    path = f"/conversations/{conversation}/calls/{call.id}"
    verb: Literal["approve", "answer"] = "approve" if isinstance(wait, CallJudged) else "answer"
    waits = "waits for a person's approval" if verb == "approve" else "asks a question that only a person can answer"
    return Problem(
        error=f"{call.tool} {waits}, and this client cannot ask for it. Have it decided at POST {path}/{verb} or "
        f"POST {path}/deny on the Toolyard server; then call {call.tool} again with the same arguments for the result",
        error_type="approval_required" if verb == "approve" else "answer_required",
        details={
            "conversation_id": conversation,
            "call_id": call.id,
            "expires_at": wait.expires_at,
            **({"reason": wait.rule} if isinstance(wait, CallJudged) else {"question": wait.question}),
        },
    )


def _build_approval_request(call: Call) -> Json:
    shown = msgspec.json.format(msgspec.json.encode(call.arguments)).decode()
    cut = shown if len(shown) <= MAX_SHOWN_CHARS else f"{shown[:MAX_SHOWN_CHARS]}… ({len(shown):,} characters in all)"
    box: Json = {"type": "boolean", "title": f"Run {call.tool}", "description": "Leave it empty to refuse."}
    form: Json = {"type": "object", "properties": {"approve": box}, "required": ["approve"]}
    said = f"May the tool {call.tool} run with these arguments?\n{cut}"
    return {"method": ELICIT, "params": {"mode": "form", "message": said, "requestedSchema": form}}


def _parse_decision(call_id: str, reply: Json | None, by: Caller) -> Approve | Deny:
    """Only a clear yes is a yes."""
    if reply is not None and reply.get("action") == "accept" and _read_content(reply).get("approve") is True:
        return Approve(by=by, call_id=call_id)
    dismissed = reply is None or reply.get("action") == "cancel"
    return Deny(by=by, call_id=call_id, reason="the question was dismissed" if dismissed else "")


def _parse_reply(reply: Json) -> Reply:
    return _REPLIES.get(reply.get("action"), "cancelled")


def _read_content(reply: Json) -> Json:
    content = reply.get("content")
    return cast(Json, content) if isinstance(content, dict) else {}
