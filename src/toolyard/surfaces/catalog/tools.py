"""`GET /tools`: the tools that the caller may use, with their schemas and rules."""

from litestar import get
from msgspec import Struct

from toolyard.core.tools.definition import Tool
from toolyard.core.tools.templates import fill_examples
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context
from toolyard.surfaces.shared.tool_views import get_server_id


class ToolCard(Struct, kw_only=True):
    """A tool, where it runs, and the rules that apply to it."""

    name: str
    title: str
    """What people read in place of the name; empty if it has none."""
    description: str
    parameters: dict[str, object]
    venue: str
    server_id: str
    roles: list[str]
    own_check: bool
    """Whether the tool also authorizes calls by its own function."""
    divisions: list[str]
    approval: str
    approvers: list[str]
    """Who may decide, as `role:NAME` or `user:NAME`; empty means the owner and the role approver."""
    approvals: int
    """How many people have to approve a call."""
    read_only: bool
    destructive: bool
    open_world: bool
    idempotent: bool
    exclusive: bool
    timeout_s: float
    examples: list[str]


class ToolList(Struct, kw_only=True):
    tools: list[ToolCard]
    count: int
    success: bool = True


@get("/tools", responses=ERRORS, tags=["tools"])
async def list_tools(request: HttpRequest) -> ToolList:
    """List the tools that the caller may use, by name."""
    usable = sorted(
        request.backend.service.tools.list_usable(get_request_context(request.scope).caller), key=lambda tool: tool.name
    )
    return ToolList(tools=[build_tool_card(tool) for tool in usable], count=len(usable))


ROUTES = (list_tools,)


def build_tool_card(tool: Tool) -> ToolCard:
    return ToolCard(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        parameters=tool.parameters,
        venue=tool.venue,
        server_id=get_server_id(tool),
        roles=sorted(tool.roles),
        own_check=tool.own_check,
        divisions=sorted(tool.divisions),
        approval=tool.approval,
        approvers=list(tool.approvers),
        approvals=tool.approvals,
        read_only=tool.read_only,
        destructive=tool.destructive,
        open_world=tool.open_world,
        idempotent=tool.idempotent,
        exclusive=tool.exclusive,
        timeout_s=tool.timeout_s,
        examples=fill_examples(tool),
    )
