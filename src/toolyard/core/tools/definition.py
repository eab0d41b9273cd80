"""The definition of a tool. Data only: venues run tools."""

import hashlib
import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Literal

import msgspec
from msgspec import Struct, field

from toolyard.core.caller import Caller
from toolyard.core.items import Seal
from toolyard.core.settings.tool_rules import AfterUntrusted, Approval
from toolyard.core.settings.web_search import SearchOptions
from toolyard.core.tool_identity import BoundName, ToolIdentity
from toolyard.core.tools.approval_terms import ApprovalTerms

VenueName = Literal["function", "mcp", "client", "provider"]
NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")

PROVIDER_TOOLS = ("web_search", "code_execution", "file_search")
"""The names of tools of the venue `provider`; a wire offers those that its provider has."""

RUN_CODE_NAME = "run_code"
"""The name of the tool that runs programs."""
SHIPPED_TOOLS = (*PROVIDER_TOOLS, RUN_CODE_NAME)
"""The names of tools that settings may name although no module and no server brings them."""

EMPTY_OBJECT: dict[str, object] = {"type": "object", "properties": {}}


class ProviderOptions(SearchOptions, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Options of a provider's own tool. A wire translates those that its provider supports."""

    stores: tuple[str, ...] = ()
    """The provider's ids of the collections that `file_search` searches."""


class Tool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool: its name, description, parameters, venue and rules."""

    name: str
    title: str = ""
    """What people read in place of the name. Models are not shown it."""
    description: str = ""
    parameters: dict[str, object] = field(default_factory=lambda: dict(EMPTY_OBJECT))
    returns: dict[str, object] | None = None
    """The JSON Schema of the values that the tool returns, if it is known."""
    venue: VenueName = "function"
    enabled: bool = True
    roles: frozenset[str] = frozenset()
    """The roles that may use the tool; empty means everybody."""
    own_check: bool = False
    """Whether the tool also has an `authorize` hook, which may deny callers whom the roles allow."""
    divisions: frozenset[str] = frozenset()
    approval: Approval = "never"
    """`ask` may be remembered for a conversation, `always` not; `other` is never for the caller who asked to decide."""
    approvers: tuple[str, ...] = ()
    """Who may decide, as `role:NAME` or `user:NAME`; empty means the owner and the role approver of the tenant."""
    approvals: int = 1
    """How many people have to approve a call."""
    approval_reason: bool = False
    """Whether each decision has to give a reason."""
    timeout_s: float = 30.0
    approval_s: float = 86_400.0
    client_s: float = 600.0
    retries: int = 2
    """How often a failed attempt is repeated, if the tool is repeatable."""
    read_only: bool = False
    """Whether the tool changes nothing."""
    destructive: bool = False
    """Whether the tool may overwrite or delete data for good: it never runs in parallel with another call."""
    open_world: bool = False
    """Whether the tool reaches beyond this system, such as the web or other people."""
    untrusted: bool = False
    """Whether the tool's results are untrusted content. Those of an `open_world` tool always are."""
    unreviewed: bool = False
    """Whether a server that is not trusted wrote the description, and no person has accepted it."""
    after_untrusted: AfterUntrusted | None = None
    """What a destructive or open-world call meets after untrusted content; None means what the server's rules say."""
    idempotent: bool = False
    """Whether repeating a call has no further effect."""
    exclusive: bool = False
    """Whether the tool must not run in parallel with other calls of its conversation."""
    max_result_bytes: int = 16_384
    price: float = 0.0
    """What a call costs, in US dollars; 0 if it has no price."""
    examples: tuple[str, ...] = ()
    """Requests in users' words. The offline model runs a call for a plain one."""
    propose: tuple[str, ...] = ()
    """Further examples that are statements: the offline model proposes the call, and never runs it unasked."""
    says: tuple[str, ...] = ()
    """Sentences about a result for people, with slots; the first whose values are known is used. No model gets them."""
    built_in: bool = False
    """Whether the tool comes with Toolyard, so that conversations cannot enable or disable it."""
    hides_server_tool: bool = False
    """Whether this tool of an application is offered in place of the server's tool of the same name."""
    sources: dict[str, str] = {}
    """The names of other tools that values of parameters come from, by parameter."""
    checks_ok: bool = False
    """Whether a result `{"ok": false, "error": …}` of a function is a failure."""
    options: ProviderOptions | None = None
    """Only for a provider's own tool, whose name is one of `PROVIDER_TOOLS`."""
    seal: Seal | None = None
    """What a client told the provider about its own tool, such as to load it only when it is found."""
    server: str = ""
    """The MCP server that the tool runs on."""
    remote: str = ""
    """The name of the tool on its server."""
    alias: str = ""
    """The name that the configuration sets. `name` differs from it if the alias was taken."""
    former_names: tuple[str, ...] = ()
    """The other names that are bound to the tool of an MCP server: what was said of them was said of this tool."""

    @property
    def identity(self) -> ToolIdentity:
        return ToolIdentity(self.server, self.remote) if self.server else ToolIdentity("", self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names that stand for the tool, the one that it is offered under first."""
        return (self.name, *self.former_names)

    def is_meant_by(self, bound_names: Collection[BoundName]) -> bool:
        """Return whether one of these names meant this tool when it was set."""
        # A provider's tool does the same as a server's tool of its name: who names one means both.
        if self.venue == "provider":
            return any(bound.name == self.name for bound in bound_names)
        return any(
            BoundName(name, self.server, self.remote) in bound_names or BoundName(name) in bound_names
            for name in self.names
        )

    @property
    def repeatable(self) -> bool:
        """Return whether a call may run again if its outcome is unknown."""
        return self.read_only or self.idempotent


def get_approval_terms(tool: Tool) -> ApprovalTerms | None:
    """Return what a decision on calls of this tool takes; None if its owner or an approver decides alone."""
    if tool.approval != "other" and not tool.approvers and tool.approvals == 1 and not tool.approval_reason:
        return None
    return ApprovalTerms(
        other=tool.approval == "other",
        approvers=tool.approvers,
        quorum=tool.approvals,
        reason_required=tool.approval_reason,
    )


def may_use_with_key(tool: Tool, caller: Caller) -> bool:
    """Return whether the caller's key admits a tool, or the limits of keys do not apply to it."""
    # The application's tools came with the request itself, and built-in tools only serve others.
    if not caller.tools or tool.built_in or tool.venue == "client":
        return True
    names = caller.tools
    if tool.server and caller.bound_tools:
        if tool.is_meant_by(caller.bound_tools):
            return True
        # A name that is bound means no other server's tool.
        names = names.difference(bound.name for bound in caller.bound_tools)
    # A pattern admits any tool that is offered under a name like it.
    return not names.isdisjoint(tool.names) or any(fnmatchcase(tool.name, pattern) for pattern in names)


def hash_definition(tool: Tool) -> str:
    """Return a short hash of what the model is shown of a tool: a tool with another description is another tool."""
    options = tuple(filter(None, (tool.options, tool.seal)))
    definition = msgspec.json.encode((tool.name, tool.description, tool.parameters, *options), order="deterministic")
    return hashlib.blake2b(definition, digest_size=8).hexdigest()
