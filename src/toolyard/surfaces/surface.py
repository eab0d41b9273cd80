"""What a surface declares about itself: its routes, and what the middleware has to know about its paths.

A package in `surfaces` has one `SURFACE`, and `app.SURFACES` lists them all.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from litestar.handlers import ASGIRouteHandler, HTTPRouteHandler, WebsocketRouteHandler
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.ports import Servers
from toolyard.core.settings.limits import DEFAULT_SOCKET_LIMITS, SocketLimits
from toolyard.core.settings.models.cards import ProviderCard
from toolyard.core.settings.runtime import EntryId, FixedSetting
from toolyard.core.store import SharedKeyValue
from toolyard.core.tools.mcp_servers import AddServers, ServerSpec
from toolyard.engine.access.authentication import Authenticator
from toolyard.engine.access.provider_sign_in import ProviderSignIns
from toolyard.engine.access.sessions import Sessions
from toolyard.engine.service import Service
from toolyard.engine.settings.setting_store import SettingStore
from toolyard.models.provider_check import ProviderCheck

CheckProvider = Callable[[str, object, str], Awaitable[ProviderCheck]]
"""Tries a provider with real requests: its name, its unsaved settings or None, and the name of a model or nothing."""
ImportSettings = Callable[[Mapping[EntryId, object], Mapping[str, ServerSpec], Caller], Awaitable[None]]
"""Stores settings and MCP servers: all of them, or none."""
Route = HTTPRouteHandler | ASGIRouteHandler | WebsocketRouteHandler
Shared = TypeVar("Shared")


class ErrorBody(Struct, frozen=True, kw_only=True):
    """The body of every response that is not a success."""

    error: str
    error_type: str
    correlation_id: str
    details: dict[str, object] = {}
    ok: bool = False
    success: bool = False


class ErrorAnswer(Struct, frozen=True, kw_only=True):
    """The response to a request that failed."""

    status: int
    body: object
    headers: dict[str, str]


EncodeError = Callable[[int, ErrorBody, dict[str, str]], ErrorAnswer]
"""Returns an error response in a surface's own shape, from its status, the usual body and the usual headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What the routes of surfaces call."""

    service: Service
    access: Authenticator
    sessions: Sessions
    servers: Servers
    records: SharedKeyValue
    """Records of surfaces that replicas share."""
    settings: SettingStore | None = None
    """The settings that are changed by requests; None if there are none."""
    check_provider: CheckProvider | None = None
    import_settings: ImportSettings | None = None
    fixed_settings: Sequence[FixedSetting] = ()
    """Settings that need a restart."""
    locations: Mapping[EntryId, str] = field(default_factory=dict[EntryId, str])
    """Where the configuration sets its MCP servers and keys."""
    secret_source: str = ""
    """How stored secrets are encrypted, in words."""
    provider_cards: Callable[[], Sequence[ProviderCard]] = tuple[ProviderCard, ...]
    approval_hold_s: float = 0.0
    """How long a request of a protocol without approvals stays open while its run waits for a person."""
    leave_s: float = 0.0
    """How long a run goes on after a client has left that keeps its history itself; 0 means until its end."""
    max_file_bytes: int = 20_000_000
    """The largest file whose text is returned."""
    socket_limits: SocketLimits = DEFAULT_SOCKET_LIMITS
    add_servers: Callable[[], AddServers] = lambda: "all"
    """Returns which MCP servers may be added or changed by requests."""
    trust_added_servers: bool = False
    """Whether MCP servers that requests add are trusted unless they say otherwise."""
    provider_sign_ins: ProviderSignIns | None = None
    """Sign-ins at the identity provider; None if none is configured."""
    _shared: dict[Callable[["Backend"], object], object] = field(default_factory=dict, repr=False, compare=False)

    def share(self, build: Callable[["Backend"], Shared]) -> Shared:
        """Return what this function builds from the backend. It is called once, and all requests share the result."""
        if build not in self._shared:
            self._shared[build] = build(self)
        return cast(Shared, self._shared[build])


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """The routes of one wire protocol, and the rules of its paths. A path that ends in `*` stands for all below it."""

    routes: tuple[Route, ...]
    public_paths: frozenset[str] = frozenset()
    """Paths that need no key. They must not show data of any user."""
    session_paths: frozenset[str] = frozenset()
    """Paths of the web page, which a session's cookie opens. All others need a key with each request."""
    quiet_paths: frozenset[str] = frozenset()
    """Paths of frequent requests of little interest, which are logged at debug level."""
    websocket_paths: frozenset[str] = frozenset()
    """Paths that accept WebSockets. A connection to any other path is refused before its route."""
    error_paths: frozenset[str] = frozenset()
    """The paths whose errors `encode_error` encodes, also those of unknown routes and missing keys."""
    encode_error: EncodeError | None = None
    """The shape of errors on `error_paths`; None means `ErrorBody`."""
    error_header: str = ""
    """A request header that only clients of this protocol send: with it, errors on `shared_paths` have its shape."""
    shared_paths: frozenset[str] = frozenset()
    response_headers: tuple[str, ...] = ()
    """Response headers of its own that pages of other origins may read (CORS)."""


@dataclass(frozen=True, slots=True)
class PathSet:
    """Paths, and prefixes of paths."""

    exact: frozenset[str]
    prefixes: tuple[str, ...]

    @classmethod
    def build(cls, patterns: Iterable[str]) -> "PathSet":
        """Return the set of these patterns: a path, or a prefix and `*`."""
        distinct = set(patterns)
        prefixes = {pattern for pattern in distinct if pattern.endswith("*")}
        return cls(frozenset(distinct - prefixes), tuple(sorted(prefix[:-1] for prefix in prefixes)))

    def __contains__(self, path: str) -> bool:
        return path in self.exact or path.startswith(self.prefixes)


@dataclass(frozen=True, slots=True)
class PathRules:
    """The rules of all surfaces, as the middleware looks them up for each request."""

    public: PathSet
    session: PathSet
    quiet: PathSet
    websocket: PathSet
    encoders: Sequence[tuple[PathSet, str, EncodeError]] = field(repr=False)
    response_headers: tuple[str, ...]

    @classmethod
    def collect(cls, surfaces: Sequence[Surface]) -> "PathRules":
        return cls(
            PathSet.build(path for surface in surfaces for path in surface.public_paths),
            PathSet.build(path for surface in surfaces for path in surface.session_paths),
            PathSet.build(path for surface in surfaces for path in surface.quiet_paths),
            PathSet.build(path for surface in surfaces for path in surface.websocket_paths),
            [
                (PathSet.build(paths), header, surface.encode_error)
                for surface in surfaces
                if surface.encode_error
                for paths, header in ((surface.error_paths, ""), (surface.shared_paths, surface.error_header))
            ],
            tuple(name for surface in surfaces for name in surface.response_headers),
        )

    def find_encoder(self, path: str, headers: Mapping[str, str]) -> EncodeError | None:
        """Return how errors of a request are encoded; None means `ErrorBody`."""
        return next(
            (encode for paths, header, encode in self.encoders if path in paths and (not header or header in headers)),
            None,
        )
