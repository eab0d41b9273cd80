"""Build the frames of a UI message stream that do not depend on what was sent before. Pure."""

import mimetypes
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256

import msgspec

from toolyard.core.conversation.events import CallProgressed
from toolyard.core.conversation.run_view import CallView, RunView
from toolyard.core.items import Call, FilePart, ImagePart, Item, ModelText, Result, Usage

Frame = Mapping[str, object]
_DATA_TYPE = re.compile(r"data:([\w.+/-]+)")


def build_input(call: Call, arguments: dict[str, object], *, is_client: bool) -> Frame:
    """Return the whole input of a call, or why it cannot be read."""
    fields: dict[str, object] = {"toolCallId": call.id, "toolName": call.tool, "input": arguments}
    if not is_client:
        fields["providerExecuted"] = True  # on the server: the client must not run it
    if call.unreadable:
        return {"type": "tool-input-error", **fields, "errorText": call.unreadable}
    return {"type": "tool-input-available", **fields}


def build_dropped_call(call_id: str) -> Frame:
    """Return the end of a call whose arguments the model began to write, in a turn that was cut off."""
    return {"type": "tool-output-error", "toolCallId": call_id, "errorText": "the call was not made"}


def build_output(result: Result, *, is_client: bool) -> list[Frame]:
    """Return the result of a call."""
    fields: dict[str, object] = {"toolCallId": result.call_id}
    error_type = result.error.error_type if result.error is not None else ""
    if result.outcome == "denied" and error_type == "denied_by_user":
        return [{"type": "tool-output-denied", **fields}]
    if not is_client:
        fields["providerExecuted"] = True
    if result.outcome != "ok":
        text = result.error.error if result.error is not None else result.content
        return [{"type": "tool-output-error", **fields, "errorText": text}]
    return [{"type": "tool-output-available", **fields, "output": _read_output(result.content, is_client=is_client)}]


def _read_output(content: str, *, is_client: bool) -> object:
    """Return the value of a result that is JSON, else its text.

    A client's own result is any JSON; a text of the server's tools that looks like a number is a text.
    """
    if not is_client and not content.startswith(("{", "[")):
        return content
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return content


def build_approval_request(call_id: str, rule: str) -> Frame:
    """Return the request to approve a call, whose id is the request's as well."""
    return {"type": "tool-approval-request", "approvalId": call_id, "toolCallId": call_id, "reason": rule}


def build_approval_response(call_id: str, *, approved: bool, reason: str) -> Frame:
    frame: Frame = {"type": "tool-approval-response", "approvalId": call_id, "approved": approved}
    return {**frame, "reason": reason} if reason else frame


def build_question(call: CallView, conversation: str) -> Frame:
    """Return the question that a call asks, and how it is answered: with `POST …/calls/ID/answer`."""
    data = {
        "toolCallId": call.call.id,
        "toolName": call.call.tool,
        "conversationId": conversation,
        "question": call.parked.question if call.parked is not None else {},
        "expiresAt": call.expires_at,
        "isAnswered": call.phase != "parked",
    }
    return {"type": "data-question", "id": call.call.id, "data": data}


def build_progress(event: CallProgressed, view: RunView) -> Frame:
    """Return a report of a running call, which is no part of the message."""
    call = view.calls.get(event.call_id)
    data = {
        "toolCallId": event.call_id,
        "toolName": call.call.tool if call else "",
        "progress": event.progress,
        "total": event.total,
        "message": event.message,
    }
    return {"type": "data-progress", "id": event.call_id, "data": data, "transient": True}


def build_usage(usage: Usage) -> Frame:
    data = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cachedInputTokens": usage.cached_tokens,
        "totalTokens": usage.total,
    }
    return {"type": "data-usage", "id": "usage", "data": data}


def build_sources(items: Iterable[Item], sent: set[str]) -> list[Frame]:
    """Return the sources of a turn's texts, each address once, and add them to those that were sent."""
    frames: list[Frame] = []
    for item in items:
        for citation in item.citations if isinstance(item, ModelText) else ():
            if citation.url and citation.url not in sent:
                sent.add(citation.url)
                source_id = f"source-{sha256(citation.url.encode()).hexdigest()[:16]}"
                frame: Frame = {"type": "source-url", "sourceId": source_id, "url": citation.url}
                frames.append({**frame, "title": citation.title} if citation.title else frame)
    return frames


def build_files(result: Result) -> list[Frame]:
    """Return the images and files of a result."""
    return [
        {"type": "file", "url": part.url, "mediaType": _find_media_type(part)}
        for part in result.parts
        if isinstance(part, ImagePart | FilePart)
    ]


def _find_media_type(part: ImagePart | FilePart) -> str:
    if match := _DATA_TYPE.match(part.url):
        return match[1]
    name = part.name if isinstance(part, FilePart) else ""
    guessed, _ = mimetypes.guess_type(name or part.url.partition("?")[0])
    return guessed or ("image/*" if isinstance(part, ImagePart) else "application/octet-stream")
