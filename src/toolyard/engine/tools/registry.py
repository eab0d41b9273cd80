"""The registry of tools: which tools exist, where each runs, and who may use it. `offers` builds offers from it."""

import itertools
import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolyard.codec import check_encodable
from toolyard.core.caller import Caller
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.errors import Invalid, Misconfigured
from toolyard.core.items import Problem
from toolyard.core.ports import (
    AuthorizeHook,
    Monitored,
    Policy,
    PolicyRequest,
    ProgramVenue,
    ToolHooks,
    Venue,
    Verdict,
)
from toolyard.core.settings.tool_rules import ToolRules
from toolyard.core.tools.definition import NAME_PATTERN, RUN_CODE_NAME, ProviderOptions, Tool, hash_definition
from toolyard.core.tools.rules import narrow_tool
from toolyard.core.tools.schema_expansion import UnboundedSchema, measure_schema
from toolyard.core.tools.templates import check_slots
from toolyard.core.tools.web_search_rule import SEARCH_TOOL, SearchRules
from toolyard.engine.tools.caller_tools import Availability, RegisteredTool, ToolTable, ToolTables
from toolyard.engine.tools.rule_book import FindListed, RuleBook
from toolyard.engine.tools.web_search_plan import SearchPlanner

if TYPE_CHECKING:  # loaded by `app` when a tool first needs it: typed functions bring their own validation
    from toolyard.engine.tools.argument_validation import Schemas

MAX_NAMED = 20
"""Tools that an error names."""
MAX_NAME_LETTERS = 64
MAX_OUTAGES = 5
NO_SETTINGS = Settings()
_log = logging.getLogger("toolyard.registry")


class Registry:
    """The tools of all venues."""

    def __init__(
        self,
        policy: Policy,
        client: Venue,
        schemas: Callable[[], "Schemas"],
        search_planner: SearchPlanner | None = None,
        configured_rules: Collection[str] = (),
        find_listed: FindListed = lambda listed, at: listed,
    ) -> None:
        """`configured_rules` are the names of the tools whose rules the configuration sets."""
        self.search_planner = search_planner or SearchPlanner()
        self.rules = RuleBook(configured_rules, find_listed)
        self._make_schemas = schemas
        self._schemas: Schemas | None = None
        self._policy = policy
        self._client = client
        self._tools: dict[str, RegisteredTool] = {}
        self.native: dict[str, RegisteredTool] = {}
        """Tools that providers run themselves. A tool of another venue may have the same name."""
        self.has_more_native = False
        """Whether there are tools in `native` besides web search."""
        self.search_tools: list[str] = []
        self.authorize_hooks: dict[str, AuthorizeHook] = {}
        self._venues: list[Venue] = []
        self.tables = ToolTables(self._try_register)
        self.version = 0
        self.changed_at = 0.0
        """When a setting last changed that decides which tools a run may use; 0 if none did."""
        self.listeners: list[Callable[[], None]] = []
        """Called when the registered tools have changed."""

    def add(self, venue: Venue, *, on_demand: Availability = "always") -> None:
        """Register the tools of a venue. Raises Misconfigured for a tool that cannot be offered."""
        for tool in venue.tools():
            entry = self._make_entry(tool, venue, on_demand)
            table = self.native if tool.venue == "provider" else self._tools
            self._check(entry, table)
            table[tool.name] = entry
            if entry.hooks.authorize:
                self.authorize_hooks[tool.name] = entry.hooks.authorize
        self._venues.append(venue)
        self.tables.add(venue)
        self._on_change()

    def refresh(self, venue: Venue) -> None:
        """Replace the tools of a venue by those that it lists now. A tool that cannot be offered is skipped and logged.

        Unchanged tools keep their entries, in the venue's order, so that an offer of the same tools stays the same.
        """
        tools = {name: entry for name, entry in self._tools.items() if entry.venue is not venue}
        for tool in venue.tools():
            before = self._tools.get(tool.name)
            if before is not None and before.venue is venue and before.listed is tool:
                tools[tool.name] = before
                continue
            if (entry := self._try_register(tool, venue, tools)) is not None:
                tools[tool.name] = entry
        self._tools = tools
        self._on_change()

    def _try_register(self, tool: Tool, venue: Venue, others: Mapping[str, RegisteredTool]) -> RegisteredTool | None:
        entry = self._make_entry(tool, venue)
        try:
            self._check(entry, others)
        except Misconfigured as error:
            _log.warning("a tool of the venue %s is not offered: %s", tool.venue, error)
            return None
        return entry

    def _make_entry(self, tool: Tool, venue: Venue, on_demand: Availability = "always") -> RegisteredTool:
        return RegisteredTool(
            tool=self.rules.apply(tool),
            listed=tool,
            venue=venue,
            hooks=venue.hooks(tool.name),
            hash=hash_definition(tool),
            on_demand=on_demand,
            program_venue=venue if isinstance(venue, ProgramVenue) else None,
        )

    def set_rules(self, rules: Mapping[str, ToolRules], now: float) -> None:
        """Replace the rules that are set while the server runs. Tools are judged by them from now on."""
        if not self.rules.replace(rules, now):
            return
        for table in (self._tools, self.native):
            for name, entry in table.items():
                table[name] = replace(entry, tool=self.rules.apply(entry.listed))
        self.note_changed_settings(now)

    def set_search_rules(self, rules: SearchRules, now: float) -> None:
        """Replace where web searches run, and the limits of those that a provider runs."""
        if not self.search_planner.versions.replace(rules, now):
            return
        if (entry := self.native.get(SEARCH_TOOL)) is not None:
            self.native[SEARCH_TOOL] = self.limit_search(entry, rules.options)
        self.note_changed_settings(now)

    def limit_search(self, entry: RegisteredTool, options: ProviderOptions) -> RegisteredTool:
        """Return the search of providers with these limits."""
        return self._make_entry(replace(entry.listed, options=options), entry.venue, entry.on_demand)

    def note_changed_settings(self, now: float) -> None:
        """Forget what was built from the settings before, such as offers."""
        self.changed_at = now
        self._on_change()

    def table_for(self, caller: Caller) -> ToolTable:
        return self.tables.table_for(caller, self._tools)

    def _on_change(self) -> None:
        self.version += 1
        self.tables.clear()
        self.has_more_native = bool(self.native.keys() - {SEARCH_TOOL})
        self.search_tools = [name for name, entry in self._tools.items() if self.search_planner.is_search(entry.tool)]
        for listener in list(self.listeners):
            listener()

    @property
    def schemas(self) -> "Schemas":
        """Return the schema validators, created for the first tool without a validation hook."""
        self._schemas = self._schemas or self._make_schemas()
        return self._schemas

    def validate(self, entry: RegisteredTool, arguments: dict[str, object]) -> Problem | None:
        """Return what is wrong with the arguments, field by field, or None."""
        check = entry.hooks.validate
        return check(arguments) if check else self.schemas.validate(entry.tool, entry.hash, arguments)

    def names(self) -> list[str]:
        return list(self._tools)

    def usable_tools(self, caller: Caller, settings: Settings = NO_SETTINGS) -> list[Tool]:
        """Return the tools that this caller may use in a conversation with these settings and everything enabled."""
        registered = _filter_offered(self.table_for(caller).values(), caller)
        return self._filter_permitted((*registered, *self.native_tools(settings)), caller)

    def find_usable(self, name: str, caller: Caller) -> Tool | None:
        """Return the tool of that name among the `usable_tools` that no provider runs; None if there is none."""
        entry = self.table_for(caller).get(name)
        offered = _filter_offered([entry], caller) if entry else []
        return next(iter(self._filter_permitted(offered, caller)), None)

    def unavailable_tools(self, caller: Caller) -> list[Tool]:
        """Return the tools that this caller may use once their servers run again."""
        return self._filter_permitted(map(self.rules.apply, self.tables.unavailable_tools(caller)), caller)

    def _filter_permitted(self, tools: Iterable[Tool], caller: Caller) -> list[Tool]:
        requests = (PolicyRequest(tool=tool, caller=caller, settings=Settings()) for tool in tools)
        return [request.tool for request in requests if self._policy.judge(request).decision != "deny"]

    def native_tools(self, settings: Settings = NO_SETTINGS) -> list[Tool]:
        """Return the tools that the provider of a conversation's model, or of the default one, runs itself."""
        native = (entry.tool for entry in self.native.values())
        return self.search_planner.native_tools(native, settings.model, settings.web_search)

    def list_registered(self, caller: Caller) -> tuple[list[RegisteredTool], list[tuple[Tool, Venue]]]:
        """Return the registered tools of this caller, and the listed tools that could not be registered."""
        refused = [(tool, venue) for venue in self._venues for tool in venue.tools() if tool.name not in self._tools]
        return list(self.table_for(caller).values()), refused

    def warnings(self) -> list[str]:
        """Return the warnings of all venues that report any."""
        venues = {id(entry.venue): entry.venue for entry in self._tools.values()}
        return [line for venue in venues.values() if isinstance(venue, Monitored) for line in venue.warnings()]

    def find(self, name: str, app_tools: Iterable[Tool] = (), caller: Caller | None = None) -> RegisteredTool | None:
        """Return the tool of that name: the server's, else the application's, else a provider's.

        The tool is this caller's version of it or, without a caller, everybody's.
        """
        return self.find_non_native(name, app_tools, caller) or self.native.get(name)

    def lookup(self, call: CallState, state: State) -> RegisteredTool | None:
        """Return the tool of a call, in the version of the run's caller.

        What has widened its rules since the run began is left out. Who may use it is for the policy.
        """
        run, name = state.run, call.call.tool
        entry = self.find(name, run.request.app_tools, run.request.caller) if run else self.find(name)
        if entry is not None and run is not None and run.started_at < self.rules.changed_at:
            entry = self._narrow(entry, run.started_at)
        if entry is None or entry.tool.venue != "provider" or entry.tool in self.native_tools(state.settings):
            return entry
        return None  # no provider runs it here

    def _narrow(self, entry: RegisteredTool, begun_at: float) -> RegisteredTool:
        """Return a tool as it is for a run that began at this time."""
        if entry.tool.venue in ("client", "provider"):  # the run brought it along, or it does not run here
            return entry
        return replace(entry, tool=narrow_tool(entry.tool, self.rules.apply_at(entry.listed, begun_at)))

    def runs_program(self, call: CallState, state: State) -> bool:
        """Return whether a call runs a program: one that waits for its calls, or one of a tool for programs."""
        if call.phase == "nested":
            return True
        entry = self.lookup(call, state)
        return entry is not None and entry.program_venue is not None

    def lacks_tools(self, state: State) -> bool:
        """Return whether an open call is of a tool that was offered and that is missing or another one here.

        A program that has begun needs what runs programs, also if a person and not a model wrote it.
        """
        for call in state.calls_in("requested", "allowed", "running", "nested"):
            offered = state.offered.get(call.call.tool, "")
            if not offered and call.call.tool != RUN_CODE_NAME:
                continue
            entry = self.lookup(call, state)
            if entry is None or (offered and entry.hash != offered):
                return True
        return False

    @property
    def is_starting(self) -> bool:
        """Return whether any server is being started, so that `starts_until` is worth asking."""
        venue = self.tables.venue
        return venue is not None and venue.is_starting

    def starts_until(self, caller: Caller, tool: Tool | None = None, *, max_s: float = math.inf) -> float:
        """Return until when the server of this tool may take to start, or those that may have a missing tool; else 0.0.

        `max_s` bounds the time since the start of a server.
        """
        return self.tables.starts_until(caller, tool, max_s)

    def describe_missing_tool(self, name: str, offered: Iterable[str], caller: Caller) -> Problem:
        """Return why there is no such tool for this caller: its server does not offer it now, or nobody has it."""
        absence = self.tables.explain_absence(name, caller)
        return absence or build_unknown_tool_problem(name, offered, self.tables.list_outages(caller))

    def is_taken(self, name: str, caller: Caller) -> bool:
        """Return whether the server has a tool of that name for this caller."""
        return name in self.table_for(caller)

    def find_non_native(self, name: str, app_tools: Iterable[Tool], caller: Caller | None) -> RegisteredTool | None:
        """Return the tool of that name that does not run at a provider."""
        app_tool = next((tool for tool in app_tools if tool.name == name), None) if app_tools else None
        entry = (self.table_for(caller) if caller else self._tools).get(name)
        if app_tool is None or (entry is not None and not app_tool.hides_server_tool):
            return entry
        return _make_app_entry(app_tool, self._client)

    def check_app_tools(self, tools: Sequence[Tool]) -> None:
        """Raise Misconfigured for an application's tool that cannot be offered."""
        seen: set[str] = set()
        for tool in tools:
            self._check_name(tool, tool.name in seen)
            seen.add(tool.name)
            self.schemas.compile(tool, hash_definition(tool))

    def find_defect(self, tool: Tool) -> str:
        """Return why a tool cannot be offered, whatever the names of the others; empty if it can be."""
        entry = _make_app_entry(tool, self._client)
        try:
            self._check(entry, {})
        except Misconfigured as error:
            return str(error).removeprefix(f"tool {tool.name!r}: ")
        return ""

    def _check(self, entry: RegisteredTool, others: Mapping[str, RegisteredTool]) -> None:
        self._check_name(entry.tool, entry.tool.name in others)
        try:
            check_encodable(entry.tool)
            check_slots(entry.tool)
            if entry.hooks.validate is not None:  # else the validator measures it
                measure_schema(entry.tool.parameters)
        except (Invalid, UnboundedSchema) as error:
            raise Misconfigured(f"tool {entry.tool.name!r}: {error}") from None
        if entry.hooks.validate is None:
            self.schemas.compile(entry.tool, entry.hash)

    def _check_name(self, tool: Tool, taken: bool) -> None:
        if not NAME_PATTERN.fullmatch(tool.name):
            raise Misconfigured(
                f"{tool.name[:80]!r} cannot be a tool's name: use 1 to 64 letters, digits, underscores or hyphens"
            )
        if taken:
            raise Misconfigured(f"two tools are named {tool.name!r}: rename one, for example with @tool(name=…)")


def _make_app_entry(tool: Tool, client: Venue) -> RegisteredTool:
    """Return the entry of an application's own tool."""
    return RegisteredTool(tool=tool, listed=tool, venue=client, hooks=ToolHooks(), hash=hash_definition(tool))


def get_caller(state: State) -> Caller:
    return state.run.request.caller if state.run else Caller()


def find_denial(authorize: AuthorizeHook | None, caller: Caller) -> Verdict | None:
    """Return the denial of a tool's `authorize` hook, or None. A hook that fails denies."""
    if authorize is None:
        return None
    try:
        verdict = authorize(caller)
        return verdict if verdict is not None and verdict.decision == "deny" else None
    except Exception as error:
        _log.exception("a tool's own check failed; denied")
        return Verdict("deny", f"the tool's own check failed: {type(error).__name__}")


def build_unknown_tool_problem(name: str, offered: Iterable[str], outages: Sequence[str] = ()) -> Problem:
    """Return the problem with the names of the offered tools, the most similar first.

    `outages` are about servers that may have such a tool, as nobody knows their tools yet.
    """
    near = sorted(offered, key=lambda other: -_compute_likeness(name[:MAX_NAME_LETTERS].lower(), other.lower()))
    names = ", ".join(near[:MAX_NAMED]) or "none"
    hints = "".join(f". A server whose tools are not known may have it: {text}" for text in outages[:MAX_OUTAGES])
    return Problem(
        error=f"there is no tool named {name[:MAX_NAME_LETTERS]!r}; there are: {names}{hints}",
        error_type="unknown_tool",
        details={"tools": near[:MAX_NAMED]},
    )


def _compute_likeness(name: str, other: str) -> float:
    """Return the share of letter pairs that two names have in common."""
    pairs, other_pairs = {*itertools.pairwise(name)}, {*itertools.pairwise(other)}
    return len(pairs & other_pairs) / (len(pairs | other_pairs) or 1)


def _filter_offered(entries: Iterable[RegisteredTool], caller: Caller) -> list[Tool]:
    """Return the tools that are offered without being asked for, but for those that refuse this caller."""
    return [
        entry.tool
        for entry in entries
        if entry.on_demand == "always" and not find_denial(entry.hooks.authorize, caller)
    ]
