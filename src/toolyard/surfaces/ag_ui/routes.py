"""`POST /ag-ui` and `GET /ag-ui/capabilities`."""

from collections.abc import Sequence
from importlib.metadata import version

from litestar import get, post
from litestar.params import JSONBody
from litestar.response import Stream

from toolyard.core.settings.limits import Limits
from toolyard.core.tools.definition import Tool
from toolyard.surfaces.ag_ui.parse import RunInput
from toolyard.surfaces.ag_ui.runs import AgUiRuns
from toolyard.surfaces.http.openapi import ERRORS, EVENT_STREAM
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.http.sse import build_stream_response
from toolyard.surfaces.shared.threads import build_threads
from toolyard.surfaces.surface import Surface


def build_capabilities(tools: Sequence[Tool], limits: Limits, version: str) -> dict[str, object]:
    """Return the capabilities for a caller with these tools and limits."""
    return {
        "identity": {"name": "Toolyard", "type": "toolyard", "version": version},
        # A stream that broke off is followed by sending the request again, not by sequence numbers.
        "transport": {"streaming": True, "websocket": False, "httpBinary": False, "resumable": False},
        "tools": {
            "supported": True,
            "items": [
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools
            ],
            "parallelCalls": True,
            "clientProvided": True,
        },
        # The state is the client's: tools read it, and the stream repeats it unchanged.
        "state": {"snapshots": True, "deltas": False, "persistentState": False},
        "reasoning": {"supported": True, "streaming": True, "encrypted": False},
        "multimodal": {"input": {"image": True, "pdf": True, "audio": False, "video": False}},
        "execution": {
            "maxIterations": limits.turns_per_request,
            "maxExecutionTime": int(limits.run_seconds * 1000),
        },
        "humanInTheLoop": {"supported": True, "approvals": True, "interrupts": True, "approveWithEdits": True},
    }


PATH = "/ag-ui"


@post(PATH, status_code=200, media_type=EVENT_STREAM, responses=ERRORS, tags=["ag-ui"])
async def run_agent(request: HttpRequest, data: JSONBody[RunInput]) -> Stream:
    """Run the agent on a thread, and stream its events as AG-UI has them.

    Of the messages only the last one of the user is read, with the results after the last one of the assistant: the
    server has the others. One that it has already is not answered twice; its run is followed.
    """
    threads = request.backend.share(build_threads)
    runs, thread = AgUiRuns(request.backend.service, threads), threads.find(request, data.thread_id)
    stream, headers = await runs.answer(thread, data)
    return build_stream_response(stream, headers)


@get(f"{PATH}/capabilities", responses=ERRORS, tags=["ag-ui"])
async def show_capabilities(request: HttpRequest) -> dict[str, object]:
    """Return the agent's capabilities for this caller, as AG-UI's AgentCapabilities."""
    service, caller = request.backend.service, get_request_context(request.scope).caller
    tools = service.tools.list_usable(caller, include_native=False)
    return build_capabilities(tools, service.runs.limits_for(caller), version("toolyard"))


SURFACE = Surface(routes=(run_agent, show_capabilities))
