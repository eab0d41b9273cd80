"""Runs a failed run again for a client that repeats its request. Pure.

The history of the conversation holds the input already, so that the new run begins without any.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from toolyard.core.conversation.commands import Start
from toolyard.core.conversation.events import ConversationChanged, Entry
from toolyard.core.conversation.run_view import RunView


def build_restart(entries: Sequence[Entry], run_id: str, correlation_id: str) -> Start | None:
    """Return the command that runs a request again; None if the request is answered with what came of it.

    `entries` are those of the log from the one on that the request is recorded with. The new run, with the id `run_id`,
    takes the request over only if nobody else has: the store compares the run that the request is recorded with.
    """
    if not entries or entries[0].request is None:
        return None
    view = RunView(run_id=entries[0].run)
    for entry in entries:
        # Once something else happened in the conversation, the history does not end with the request any more.
        if view.apply(entry) is None and not isinstance(entry.event, ConversationChanged):
            return None
    request = view.request
    if request is None or not view.may_run_again:
        return None
    return Start(
        by=request.caller,
        correlation_id=correlation_id,
        request=replace(entries[0].request, replaces=view.run_id),
        run_id=run_id,
        input=(),
        app_tools=request.app_tools,
        tool_choice=request.tool_choice,
        model=request.model,
        limits=request.limits,
        web_search=request.web_search,
        context=request.context,
        language=request.language,
        mcp_client=request.mcp_client,
        options=request.options,
        ends_on_expiry=request.ends_on_expiry,
        client_fields=request.client_fields,
        may_open=False,
    )
