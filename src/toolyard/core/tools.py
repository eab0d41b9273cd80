"""What a tool is. Data only: running one is a venue's business."""

import hashlib
import re
from typing import Literal

import msgspec
from msgspec import Struct, field

VenueName = Literal["function", "mcp", "client", "provider"]
Approval = Literal["never", "ask", "always"]
NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")

PROVIDER_TOOLS = ("web_search", "code_execution", "file_search")
"""The names that tools of the venue `provider` have; a wire offers those that its provider has."""

EMPTY_OBJECT: dict[str, object] = {"type": "object", "properties": {}}


class UserLocation(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Roughly where the user is, for a search that depends on it."""

    city: str = ""
    region: str = ""
    country: str = ""
    """Two letters, as ISO 3166-1 has them."""
    timezone: str = ""


class ProviderOptions(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """How a provider's own tool is to be used. A wire says it in its provider's words, as far as those go."""

    max_uses: int = 0
    """In one turn; zero means as often as the provider allows."""
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    user_location: UserLocation | None = None
    stores: tuple[str, ...] = ()
    """The ids, at the provider, of the collections that `file_search` looks in."""


class Tool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A name, what it does, what it takes, where it runs, and its rules."""

    name: str
    description: str = ""
    parameters: dict[str, object] = field(default_factory=lambda: dict(EMPTY_OBJECT))
    venue: VenueName = "function"
    enabled: bool = True
    roles: frozenset[str] = frozenset()
    """Who may use it; empty means everybody."""
    own_check: bool = False
    """It has a check of its own besides, which may deny whom the roles allow."""
    divisions: frozenset[str] = frozenset()
    approval: Approval = "never"
    timeout_s: float = 30.0
    approval_s: float = 86_400.0
    client_s: float = 600.0
    retries: int = 2
    """How often a failed attempt is tried again, if the tool may be repeated."""
    read_only: bool = False
    """It changes nothing. Unset means that it may change something."""
    destructive: bool = False
    """It may overwrite or delete what cannot be brought back, so it never runs beside another call."""
    open_world: bool = False
    """It reaches beyond this system: the web, other people."""
    idempotent: bool = False
    """The same call twice has the effect of one. It says nothing about whether there is an effect."""
    exclusive: bool = False
    """Must not run beside other calls of its conversation."""
    max_result_bytes: int = 16_384
    examples: tuple[str, ...] = ()
    built_in: bool = False
    """Ours, and not for a conversation to choose or leave out."""
    sources: dict[str, str] = {}
    """For a parameter whose value comes from another tool, that tool's name."""
    options: ProviderOptions | None = None
    """Only of a provider's own tool, which is named for what it does: one of `PROVIDER_TOOLS`."""
    server: str = ""
    """Which of its venue's servers it runs on, and its name there."""
    remote: str = ""
    alias: str = ""
    """The name that the configuration gives it. `name` is another where the alias was taken."""

    @property
    def repeatable(self) -> bool:
        """Whether a call may be run again when it is not known how it ended."""
        return self.read_only or self.idempotent


def hash_definition(tool: Tool) -> str:
    """What the model is shown of a tool, as a short hash: a changed description is a changed tool."""
    options = (tool.options,) if tool.options else ()
    shown = msgspec.json.encode((tool.name, tool.description, tool.parameters, *options), order="deterministic")
    return hashlib.blake2b(shown, digest_size=8).hexdigest()
