"""Selects the tools that a turn shows when there are too many to show them all. The policy decides on permission.

Tools that a conversation was shown stay, in their order, so that the provider's prompt cache applies. More are added at
the end: tools that the messages seem to need, within the budget, and tools that the model found with `find_tools`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TypeGuard

from toolyard.core.conversation.state import State
from toolyard.core.items import Item, Result, UserMessage
from toolyard.core.settings.limits import Budget
from toolyard.core.tools.definition import RUN_CODE_NAME, Tool
from toolyard.tool_index.find_tools_result import FIND_TOOLS, MAX_FOUND, estimate_tool_bytes, parse_tool_names
from toolyard.tool_index.index import ToolIndex

ALWAYS_SHOWN = (FIND_TOOLS, RUN_CODE_NAME)
"""Tools by which the others are found and called, where they are there."""
MAX_GUESSED = 10
"""Tools that one search by the messages may add."""
MIN_LIKELIHOOD = 0.35
"""The share of the best score that a tool needs to be added."""
MAX_SAMPLED = 10
"""Tools to show for a message that seems to need none, such as a greeting."""
MAX_MESSAGES = 3
MAX_GUESSED_FACTOR, MAX_FOUND_FACTOR = 2, 16
"""How many times the budget a conversation may reach by tools that later messages need, and by tools that it finds."""


class ToolSelector:
    """Selects tools from a search index, within a budget."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._index = ToolIndex()
        self._indexed: Mapping[str, Tool] = {}

    def update_index(self, tools: Mapping[str, Tool]) -> None:
        """Add, replace and drop the tools that differ from those indexed before."""
        before, self._indexed = self._indexed, tools
        for name in before:
            if name not in tools:
                self._index.drop(name)
        for name, tool in tools.items():
            if before.get(name) is not tool:
                self._index.put(tool)

    def search(self, query: str, allowed: Callable[[Tool], bool]) -> list[Tool]:
        return [match.tool for match in self._index.search(query, MAX_FOUND, allowed)]

    @staticmethod
    def is_unchanged(state: State) -> bool:
        """Return whether no message and no result of `find_tools` has come since the last turn."""
        return not any(isinstance(item, UserMessage) or _is_find_result(item) for item in _list_new_items(state))

    def select_names(self, state: State, usable: Callable[[str], Tool | None], always: Collection[str]) -> list[str]:
        """Return the names of the tools to show, in order. Tools in `always` do not count towards the budget."""
        shown = _ShownTools(self.budget, usable, always)
        for name in (*state.offered, *always):
            shown.add(name)
        if state.run is not None:
            shown.add(state.run.request.tool_choice)
        for name in ALWAYS_SHOWN:
            shown.add(name)
        for name in self._list_found(state):
            shown.add(name, times=MAX_FOUND_FACTOR)
        for name in self._guess_names(state, lambda tool: usable(tool.name) is not None):
            shown.add(name, times=MAX_GUESSED_FACTOR if state.offered else 1)
        if shown.names.keys() <= {*ALWAYS_SHOWN}:
            self._add_sample(shown)
        return list(shown.names)

    def _add_sample(self, shown: "_ShownTools") -> None:
        """Show some tools of each server in turn: a model that sees none would say that it can do nothing."""
        by_server: dict[str, list[str]] = {}
        for name, tool in self._indexed.items():
            by_server.setdefault(tool.server, []).append(name)
        rounds = zip_longest(*by_server.values())
        max_shown = len(shown.names) + MAX_SAMPLED
        for name in (name for names in rounds for name in names if name is not None):
            if len(shown.names) >= max_shown:
                return
            shown.add(name, times=1)

    def _list_found(self, state: State) -> list[str]:
        """Return the tools that the model found with `find_tools` since its last turn."""
        return [
            name for item in _list_new_items(state) if _is_find_result(item) for name in parse_tool_names(item.content)
        ]

    def _guess_names(self, state: State, allowed: Callable[[Tool], bool]) -> Iterator[str]:
        """Yield the tools that the new messages seem to need, each after the tools that its arguments come from."""
        texts = [item.text for item in _list_new_items(state) if isinstance(item, UserMessage)][-MAX_MESSAGES:]
        matches = self._index.search("\n".join(texts), MAX_GUESSED, allowed) if texts else []
        for match in matches:
            if match.score >= MIN_LIKELIHOOD * matches[0].score:
                yield from match.tool.sources.values()
                yield match.tool.name


class _ShownTools:
    """The tools selected so far, and how much of the budget they take."""

    def __init__(self, budget: Budget, usable: Callable[[str], Tool | None], free: Collection[str]) -> None:
        self.names: dict[str, None] = {}
        self._budget = budget
        self._usable = usable
        self._free = free
        self._count = self._bytes = 0

    def add(self, name: str, times: int = 0) -> None:
        """Add a tool that may be used, unless it exceeds `times` the budget; 0 means no limit."""
        tool = self._usable(name) if name not in self.names else None
        if tool is None:
            return
        cost = 0 if name in self._free else 1
        count, size = self._count + cost, self._bytes + cost * estimate_tool_bytes(tool)
        if times and (count > self._budget.tools * times or size > self._budget.schema_bytes * times):
            return
        self.names[name] = None
        self._count, self._bytes = count, size


def _is_find_result(item: Item) -> TypeGuard[Result]:
    return isinstance(item, Result) and item.tool == FIND_TOOLS


def _list_new_items(state: State) -> Sequence[Item]:
    return state.history.items_from(state.shown_items)
