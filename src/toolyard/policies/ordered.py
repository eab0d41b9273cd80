"""Rules in order: the first verdict holds; none means the tool's own default. A rule that fails denies."""

import logging
from collections.abc import Sequence
from typing import cast

from toolyard.core.division import UNDIVIDED, Divisions, division_of
from toolyard.core.ports import Question, Rule, Verdict

_log = logging.getLogger("toolyard.policy")


def enabled(question: Question) -> Verdict | None:
    return None if question.tool.enabled else Verdict("deny", "the tool is disabled")


def roles(question: Question) -> Verdict | None:
    tool = question.tool
    if not tool.roles or tool.roles & question.caller.roles:
        return None
    return Verdict("deny", f"it needs one of the roles {', '.join(sorted(tool.roles))}")


def division(question: Question) -> Verdict | None:
    tool = question.tool
    if not tool.divisions or question.caller.division in tool.divisions:
        return None
    return Verdict("deny", "it belongs to another division")


def conversation(question: Question) -> Verdict | None:
    """The application's tools came with the very request: they need not be enabled."""
    if question.tool.built_in or question.tool.venue == "client" or question.settings.allows(question.tool.name):
        return None
    return Verdict("deny", "it is not enabled in this conversation")


def own_tools(divisions: Divisions) -> Rule:
    """A division or tenant that names its tools has those and no other, and nobody else who does not name them too.

    A division without a list may use everything. The application's own tools are no division's.
    """
    named = frozenset[str]().union(*(one.tools for one in divisions.values() if one.tools is not None))

    def division_tools(question: Question) -> Verdict | None:
        tool, caller = question.tool, question.caller
        own = division_of(caller, divisions)
        if tool.built_in or tool.venue == "client":
            return None
        if own is None or (own.tools is None and not caller.division):
            return Verdict("deny", "it belongs to a division") if tool.name in named else None
        if own.tools is None or tool.name in own.tools:
            return None
        whose = f"division {caller.division}" if caller.division else f"tenant {caller.tenant}"
        return Verdict("deny", f"the {whose} does not have it")

    return division_tools


BUILT_IN: tuple[Rule, ...] = (enabled, roles, division, conversation)


class Ordered:
    """The built-in rules, then the user's, then the tool's default."""

    def __init__(self, rules: Sequence[Rule] = (), divisions: Divisions = UNDIVIDED) -> None:
        self._rules = (*BUILT_IN, *((own_tools(divisions),) if divisions else ()), *rules)
        self.steady = not rules

    def judge(self, question: Question) -> Verdict:
        for rule in self._rules:
            verdict = _asked(rule, question)
            if verdict is not None:
                return verdict
        return _default(question)


def _asked(rule: Rule, question: Question) -> Verdict | None:
    name = getattr(rule, "__name__", type(rule).__name__)
    try:
        verdict = cast(object, rule(question))
    except Exception:  # fail closed, and say so
        _log.exception("rule %s failed for tool %s; denied", name, question.tool.name)
        return Verdict("deny", f"the rule {name} failed")
    if verdict is None or (isinstance(verdict, Verdict) and verdict.decision in ("allow", "ask", "deny")):
        return verdict
    return Verdict("deny", f"the rule {name} gave no verdict")


def _default(question: Question) -> Verdict:
    tool = question.tool
    if tool.approval == "never":
        return Verdict("allow", "default")
    if tool.approval == "ask" and question.remembered & {"*", tool.name}:
        return Verdict("allow", "remembered")
    return Verdict("ask", f"approval = {tool.approval}")
