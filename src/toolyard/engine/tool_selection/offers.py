"""Chooses the tools that a turn shows where there are too many to show them all. It decides nothing about permission.

What a conversation was shown stays, in its order, so that a provider's cache of the prompt holds. More joins at the
end: what its messages seem to need, within the budget, and whatever the model has found with `find_tools`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TypeGuard

from toolyard.core.items import Item, Result, UserMessage
from toolyard.core.limits import Budget
from toolyard.core.state import State
from toolyard.core.tools import Tool
from toolyard.tool_index.find_tools_result import FIND_TOOLS, MAX_FOUND, estimate_tool_bytes, parse_tool_names
from toolyard.tool_index.index import ToolIndex

MAX_GUESSED = 10
"""Tools that one look at the messages may bring."""
MIN_LIKELIHOOD = 0.35
"""Of the best one's score: what fits worse is not guessed."""
MAX_SAMPLED = 10
"""Tools that a message is shown which seems to need none, such as a greeting."""
MAX_MESSAGES = 3
MAX_GUESSED_FACTOR, MAX_FOUND_FACTOR = 2, 16
"""How many times the budget a conversation may come to by what later messages seem to need, and by what it finds."""


class ToolSelector:
    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._index = ToolIndex()
        self._indexed: Mapping[str, Tool] = {}

    def update_index(self, tools: Mapping[str, Tool]) -> None:
        """Bring the index up to date: what came, went or changed, and nothing else."""
        before, self._indexed = self._indexed, tools
        for name in before:
            if name not in tools:
                self._index.drop(name)
        for name, tool in tools.items():
            if before.get(name) is not tool:
                self._index.put(tool)

    def search(self, query: str, allowed: Callable[[Tool], bool]) -> list[Tool]:
        return [found.tool for found in self._index.search(query, MAX_FOUND, allowed)]

    @staticmethod
    def is_unchanged(state: State) -> bool:
        """Nothing came since the last turn that could bring more tools."""
        return not any(isinstance(item, UserMessage) or _is_find_result(item) for item in _list_new_items(state))

    def select_names(self, state: State, usable: Callable[[str], Tool | None], always: Collection[str]) -> list[str]:
        """The tools to show next, in order, of those that may be used. The budget is for those not shown always."""
        shown = _ShownTools(self.budget, usable, always)
        for name in (*state.offered, *always):
            shown.add(name)
        if state.run is not None:
            shown.add(state.run.request.tool_choice)
        shown.add(FIND_TOOLS)
        for name in self._list_found(state):
            shown.add(name, times=MAX_FOUND_FACTOR)
        for name in self._guess_names(state, lambda tool: usable(tool.name) is not None):
            shown.add(name, times=MAX_GUESSED_FACTOR if state.offered else 1)
        if shown.names.keys() <= {FIND_TOOLS}:
            self._add_sample(shown)
        return list(shown.names)

    def _add_sample(self, shown: "_ShownTools") -> None:
        """Show some tools of every server, in turn: a model that sees none would say that it can do nothing."""
        by_server: dict[str, list[str]] = {}
        for name, tool in self._indexed.items():
            by_server.setdefault(tool.server, []).append(name)
        rounds = zip_longest(*by_server.values())
        most = len(shown.names) + MAX_SAMPLED
        for name in (name for names in rounds for name in names if name is not None):
            if len(shown.names) >= most:
                return
            shown.add(name, times=1)

    def _list_found(self, state: State) -> list[str]:
        """What the model found since its last turn."""
        return [
            name for item in _list_new_items(state) if _is_find_result(item) for name in parse_tool_names(item.content)
        ]

    def _guess_names(self, state: State, allowed: Callable[[Tool], bool]) -> Iterator[str]:
        """What the messages that came since the last turn seem to need, each after what its values come from."""
        texts = [item.text for item in _list_new_items(state) if isinstance(item, UserMessage)][-MAX_MESSAGES:]
        likely = self._index.search("\n".join(texts), MAX_GUESSED, allowed) if texts else []
        for found in likely:
            if found.score >= MIN_LIKELIHOOD * likely[0].score:
                yield from found.tool.sources.values()
                yield found.tool.name


class _ShownTools:
    """The tools shown so far, and how much room they take."""

    def __init__(self, budget: Budget, usable: Callable[[str], Tool | None], free: Collection[str]) -> None:
        self.names: dict[str, None] = {}
        self._budget = budget
        self._usable = usable
        self._free = free
        self._count = self._bytes = 0

    def add(self, name: str, times: int = 0) -> None:
        """Unless it may not be used, or takes more room than so many times the budget."""
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
    return state.history.items_from(state.looked)
