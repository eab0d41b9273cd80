"""Which tools there are, where each runs, and which of them a caller is offered.

It decides nothing about permission: the policy does. An offer is the same object as long as nothing changed, so that
what was encoded for it can be used again.
"""

import hashlib
import itertools
import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolyard.codec import checked
from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings
from toolyard.core.errors import Invalid, Misconfigured
from toolyard.core.events import Decision
from toolyard.core.items import Problem
from toolyard.core.limits import Budget
from toolyard.core.ports import Gate, Monitored, Offer, Own, Policy, Question, Venue, Verdict
from toolyard.core.run_state import CallState
from toolyard.core.state import State
from toolyard.core.templates import check_slots
from toolyard.core.tools import NAME, Tool, definition_hash
from toolyard.core.web_search import SEARCH
from toolyard.engine.tool_selection.caller_tools import Registered, Table, Tables, When
from toolyard.engine.tool_selection.offers import Offering
from toolyard.engine.tool_selection.web_search import NOTHING, Asked, Searching, Sought
from toolyard.tool_index.find_tools_result import shown_bytes

if TYPE_CHECKING:  # loaded by name, where it is wired: typed functions do without
    from toolyard.engine.argument_validation import Schemas

MOST_OFFERS = 512
TOO_MANY = Offer(tools=(), digest="", hashes={})
"""Stands for an offer of more tools than are shown."""
_log = logging.getLogger("toolyard.registry")


class Registry:
    def __init__(
        self,
        policy: Policy,
        client: Venue,
        schemas: Callable[[], "Schemas"],
        budget: Budget = Budget(),  # noqa: B008
        searching: Searching | None = None,
    ) -> None:
        self._searching = searching or Searching()
        self._make_schemas = schemas
        self._schemas: Schemas | None = None
        self._policy = policy
        self._client = client
        self._tools: dict[str, Registered] = {}
        self._native: dict[str, Registered] = {}
        """What providers run themselves: such a tool may have the name of another."""
        self._more_native = False
        """Whether providers run more than a search."""
        self._search_tools: list[str] = []
        self._gates: dict[str, Gate] = {}
        self._venues: list[Venue] = []
        self._tables = Tables(self._fit)
        self._version = 0
        self.listeners: list[Callable[[], None]] = []
        """Told when the tools are others than before."""
        self._offers: dict[object, Offer] = {}
        self._offering = Offering(budget)
        self._indexed: object = None

    def add(self, venue: Venue, *, on_demand: When = "always") -> None:
        for tool in venue.tools():
            entry = Registered(
                tool=tool, venue=venue, own=venue.own(tool.name), hash=definition_hash(tool), on_demand=on_demand
            )
            there = self._native if tool.venue == "provider" else self._tools
            self._check(entry, there)
            there[tool.name] = entry
            if entry.own.gate:
                self._gates[tool.name] = entry.own.gate
        self._venues.append(venue)
        self._tables.add(venue)
        self._changed()

    def renew(self, venue: Venue) -> None:
        """Take what a venue lists now in place of what it listed before. What cannot be offered is left out, and told.

        What is as it was stays the same entry, and in the venue's order: an offer of the same tools stays the same.
        """
        kept = {name: entry for name, entry in self._tools.items() if entry.venue is not venue}
        for tool in venue.tools():
            before = self._tools.get(tool.name)
            if before is not None and before.venue is venue and before.tool is tool:
                kept[tool.name] = before
                continue
            if (entry := self._fit(tool, venue, kept)) is not None:
                kept[tool.name] = entry
        self._tools = kept
        self._changed()

    def _fit(self, tool: Tool, venue: Venue, others: Mapping[str, Registered]) -> Registered | None:
        entry = Registered(tool=tool, venue=venue, own=venue.own(tool.name), hash=definition_hash(tool))
        try:
            self._check(entry, others)
        except Misconfigured as error:
            _log.warning("a tool of the venue %s is not offered: %s", tool.venue, error)
            return None
        return entry

    def _seen_by(self, caller: Caller) -> Table:
        return self._tables.seen_by(caller, self._tools)

    def _changed(self) -> None:
        self._version += 1
        self._offers.clear()
        self._tables.renew()
        self._more_native = bool(self._native.keys() - {SEARCH})
        self._search_tools = [name for name, entry in self._tools.items() if self._searching.is_search(entry.tool)]
        for told in list(self.listeners):
            told()

    @property
    def schemas(self) -> "Schemas":
        """Made when the first tool comes that has only a schema to hold arguments to."""
        self._schemas = self._schemas or self._make_schemas()
        return self._schemas

    def unfit(self, entry: Registered, arguments: dict[str, object]) -> Problem | None:
        """What is wrong with the arguments, field by field."""
        check = entry.own.check
        return check(arguments) if check else self.schemas.check(entry.tool, entry.hash, arguments)

    def names(self) -> list[str]:
        return list(self._tools)

    def usable(self, caller: Caller) -> list[Tool]:
        """What this caller may use in a conversation where everything is enabled."""
        ours = [
            entry.tool
            for entry in self._seen_by(caller).values()
            if entry.on_demand == "always" and not shut(entry.own.gate, caller)
        ]
        return self._permitted((*ours, *self.hosted()), caller)

    def unavailable(self, caller: Caller) -> list[Tool]:
        """Return what this caller may use once its servers run again."""
        return self._permitted(self._tables.unavailable(caller), caller)

    def _permitted(self, tools: Iterable[Tool], caller: Caller) -> list[Tool]:
        questions = (Question(tool=tool, caller=caller, settings=Settings()) for tool in tools)
        return [question.tool for question in questions if self._policy.judge(question).decision != "deny"]

    def hosted(self) -> list[Tool]:
        """What the provider of the usual model runs itself."""
        return self._searching.hosted(entry.tool for entry in self._native.values())

    def listed(self, caller: Caller) -> tuple[list[Registered], list[tuple[Tool, Venue]]]:
        """What is registered as this caller gets it; and what venues list besides, which could not be registered."""
        refused = [(tool, venue) for venue in self._venues for tool in venue.tools() if tool.name not in self._tools]
        return list(self._seen_by(caller).values()), refused

    def warnings(self) -> list[str]:
        """Return what the venues say that is wrong with them."""
        venues = {id(entry.venue): entry.venue for entry in self._tools.values()}
        return [line for venue in venues.values() if isinstance(venue, Monitored) for line in venue.warnings()]

    def find(self, name: str, app_tools: Iterable[Tool] = (), caller: Caller | None = None) -> Registered | None:
        """The tool of that name: the server's own, then the application's, then one that providers run.

        It is as this caller gets it; without a caller, as all do.
        """
        return self._elsewhere(name, app_tools, caller) or self._native.get(name)

    def called(self, call: CallState, state: State) -> Registered | None:
        """The tool of a call, as the caller of its run gets it."""
        request = state.run.request if state.run else None
        return self.find(call.call.tool, request.app_tools, request.caller) if request else self.find(call.call.tool)

    def is_taken(self, name: str, caller: Caller) -> bool:
        """Whether the server has a tool of its own by that name, as far as this caller may know."""
        return name in self._seen_by(caller)

    def _elsewhere(self, name: str, app_tools: Iterable[Tool], caller: Caller | None) -> Registered | None:
        """The tool of that name that runs anywhere but at a provider."""
        if found := (self._seen_by(caller) if caller else self._tools).get(name):
            return found
        app_tool = next((tool for tool in app_tools if tool.name == name), None)
        if app_tool is None:
            return None
        return Registered(tool=app_tool, venue=self._client, own=Own(), hash=definition_hash(app_tool))

    def check_app_tools(self, tools: Sequence[Tool]) -> None:
        """Raises Misconfigured for an application's tool that cannot be offered."""
        seen: set[str] = set()
        for tool in tools:
            self._check_name(tool, tool.name in seen)
            seen.add(tool.name)
            self.schemas.compile(tool, definition_hash(tool))

    def offer(self, state: State) -> Offer:
        """The tools for the next turn of this conversation's run."""
        run = state.run
        if run is None or run.request.tool_choice == "none":
            return self._made(())
        caller = run.request.caller
        sought = self.sought(state)
        gated = self._shut_out(caller) | sought.left_out
        basis = (
            self._version,
            caller,
            self._tables.apart(caller),
            in_effect(state).tools,
            state.has_handles,
            gated,
            sought,
        )
        key: object = (basis, run.id) if run.request.app_tools else basis
        if self._policy.steady and (offer := self._offers.get(key)):
            return offer if offer is not TOO_MANY else self._narrowed(key, state, gated, sought)
        few = [] if sought.alone else self._few(state, gated)
        if few is None:
            self._kept(key, TOO_MANY)
            return self._narrowed(key, state, gated, sought)
        app_tools = [] if sought.alone else self._app_tools(state, gated)
        return self._kept(key, self._made([*few, *app_tools], sought))

    def sought(self, state: State) -> Sought:
        """Where the searches of this conversation's run go, and what its provider runs itself."""
        run = state.run
        wish = self._searching.wish(run.request.web_search or run.settings.web_search) if run else ""
        if run is None or not (wish or self._more_native):
            return NOTHING
        request, gated = run.request, self._shut_out(run.request.caller)

        def judge(tool: Tool) -> Decision:
            return self._policy.judge(self.verdict_question(tool, state, None)).decision

        table = self._seen_by(request.caller)
        apart = (tools.tools.items() for tools in self._tables.apart(request.caller))
        personal = (name for name, tool in itertools.chain(*apart) if tool and self._searching.is_search(tool))
        names = dict.fromkeys((*self._search_tools, *personal))
        ours = [table[name].tool for name in names if name in table and name not in gated]
        return self._searching.sought(
            Asked(
                model=run.model,
                wish=wish,
                native=[entry.tool for entry in self._native.values()],
                own=[*ours, *filter(self._searching.is_search, request.app_tools)],
                others=lambda: self._has_others(state, gated),
                judge=judge,
            )
        )

    def _shut_out(self, caller: Caller) -> frozenset[str]:
        return frozenset(name for name, gate in self._gates.items() if shut(gate, caller))

    def _has_others(self, state: State, gated: Container[str]) -> bool:
        """Whether any tool would be offered that is no search."""
        table = self._seen_by(caller_of(state))
        entries = (entry for name, entry in table.items() if name not in gated)
        every = itertools.chain(self._app_tools(state), entries)
        return any(not self._searching.is_search(entry.tool) and self._offered(entry, state) for entry in every)

    def _few(self, state: State, gated: Container[str]) -> list[Registered] | None:
        """All that may be used, unless that is more than the budget."""
        few, left = list[Registered](), self._offering.budget.schema_bytes
        for name, entry in self._seen_by(caller_of(state)).items():
            if name in gated or not self._offered(entry, state):
                continue
            few.append(entry)
            left -= shown_bytes(entry.tool)
            if left < 0 or len(few) > self._offering.budget.tools:
                return None
        return few

    def _narrowed(self, key: object, state: State, gated: Container[str], sought: Sought) -> Offer:
        """Some of very many. The same object as long as they are the same."""
        if self._policy.steady and Offering.unmoved(state) and (offer := self._offers.get((key, state.offer))):
            return offer
        app_tools, caller = state.run.request.app_tools if state.run else (), caller_of(state)
        self._index(caller)

        def usable(name: str) -> Tool | None:
            entry = self._elsewhere(name, app_tools, caller)
            return entry.tool if entry and name not in gated and self._offered(entry, state, many=True) else None

        whole = dict.fromkeys(entry.tool.name for entry in self._app_tools(state, gated))
        names = self._offering.names(state, usable, whole)
        entries = (self._elsewhere(name, app_tools, caller) for name in names)
        offer = self._made([entry for entry in entries if entry], sought)
        return self._kept((key, offer.digest), offer)

    def search(self, query: str, caller: Caller, allowed: Callable[[Tool], bool]) -> list[Tool]:
        """The tools that fit some words best, as this caller gets them, of those that may be used."""
        self._index(caller)
        return self._offering.search(query, allowed)

    def may_use(self, tool: Tool, state: State) -> bool:
        """Whether this conversation's caller may use one of the yard's tools, as things stand."""
        entry = self._seen_by(caller_of(state)).get(tool.name)
        if entry is None or state.run is None or shut(entry.own.gate, state.run.request.caller):
            return False
        return self._offered(entry, state) and tool.name not in self.sought(state).left_out

    def _index(self, caller: Caller) -> None:
        """Only what is another for this caller than for the one before is read anew."""
        basis = (self._version, self._tables.apart(caller))
        if self._indexed != basis:
            always = (entry.tool for entry in self._seen_by(caller).values() if entry.on_demand == "always")
            self._offering.index({tool.name: tool for tool in always})
            self._indexed = basis

    def verdict_question(self, tool: Tool, state: State, arguments: dict[str, object] | None) -> Question:
        return Question(
            tool=tool,
            caller=caller_of(state),
            settings=in_effect(state),
            remembered=state.remembered,
            arguments=arguments,
        )

    def _offered(self, entry: Registered, state: State, *, many: bool = False) -> bool:
        wanted = {"always": True, "cut": state.has_handles, "many": many}
        if not wanted[entry.on_demand]:
            return False
        return self._policy.judge(self.verdict_question(entry.tool, state, None)).decision != "deny"

    def _app_tools(self, state: State, gated: Container[str] = ()) -> list[Registered]:
        tools = state.run.request.app_tools if state.run else ()
        table = self._seen_by(caller_of(state)) if tools else self._tools
        wanted = (tool.name for tool in tools if tool.name not in table and tool.name not in gated)
        found = (self._elsewhere(name, tools, None) for name in wanted)
        return [entry for entry in found if entry and self._offered(entry, state)]

    def _made(self, elsewhere: Sequence[Registered], sought: Sought = NOTHING) -> Offer:
        """A provider must be told of its own tools before it can use any: they are always shown, and first.

        A name stands for one tool: where another has it, the provider's is left out.
        """
        taken = {entry.tool.name for entry in elsewhere} if sought.native else ()
        entries = [*(self._native[name] for name in sought.native if name not in taken), *elsewhere]
        hashes = {entry.tool.name: entry.hash for entry in entries}
        digest = hashlib.blake2b("".join(f"{k}{v}" for k, v in hashes.items()).encode(), digest_size=8).hexdigest()
        key, tools = (digest, sought.note, sought.told), tuple(entry.tool for entry in entries)
        return self._offers.get(key) or self._kept(
            key, Offer(tools=tools, digest=digest, hashes=hashes, note=sought.note, search=sought.told)
        )

    def _kept(self, key: object, offer: Offer) -> Offer:
        if len(self._offers) >= MOST_OFFERS:
            self._offers.clear()
        self._offers[key] = offer
        return offer

    def _check(self, entry: Registered, others: Mapping[str, Registered]) -> None:
        self._check_name(entry.tool, entry.tool.name in others)
        try:
            checked(entry.tool)
            check_slots(entry.tool)
        except Invalid as error:
            raise Misconfigured(f"tool {entry.tool.name!r}: {error}") from None
        if entry.own.check is None:
            self.schemas.compile(entry.tool, entry.hash)

    def _check_name(self, tool: Tool, taken: bool) -> None:
        if not NAME.fullmatch(tool.name):
            raise Misconfigured(
                f"{tool.name[:80]!r} cannot be a tool's name: use 1 to 64 letters, digits, underscores or hyphens"
            )
        if taken:
            raise Misconfigured(f"two tools are named {tool.name!r}: rename one, for example with @tool(name=…)")


def caller_of(state: State) -> Caller:
    return state.run.request.caller if state.run else Caller()


def in_effect(state: State) -> Settings:
    """What the run began with; but a tool that was disabled since is disabled at once."""
    run, now = state.run, state.settings
    if run is None or run.settings is now or now.tools is None:
        return now if run is None else run.settings
    began = run.settings.tools
    return replace(run.settings, tools=now.tools if began is None else began & now.tools)


def shut(gate: Gate | None, caller: Caller) -> Verdict | None:
    """The denial of a tool's own check, if it denies. One that fails denies, and the log says why."""
    if gate is None:
        return None
    try:
        verdict = gate(caller)
        return verdict if verdict is not None and verdict.decision == "deny" else None
    except Exception as error:
        _log.exception("a tool's own check failed; denied")
        return Verdict("deny", f"the tool's own check failed: {type(error).__name__}")
