"""A policy of ordered rules: the first verdict wins, else the tool's default applies. A rule that fails denies."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from toolyard.core.ports import CheckedRule, PolicyRequest, Rule, Verdict, build_checked_rule
from toolyard.core.settings.divisions import NO_DIVISIONS, Divisions, find_division
from toolyard.core.settings.versions import Versions
from toolyard.core.tools.definition import get_approval_terms, may_use_with_key

_log = logging.getLogger("toolyard.policy")


def check_enabled(request: PolicyRequest) -> Verdict | None:
    return None if request.tool.enabled else Verdict("deny", "the tool is disabled")


def check_key(request: PolicyRequest) -> Verdict | None:
    """Deny a tool that the caller's key is not for."""
    return None if may_use_with_key(request.tool, request.caller) else Verdict("deny", "the key is not for this tool")


def check_roles(request: PolicyRequest) -> Verdict | None:
    tool = request.tool
    if not tool.roles or tool.roles & request.caller.roles:
        return None
    return Verdict("deny", f"it needs one of the roles {', '.join(sorted(tool.roles))}")


def check_division(request: PolicyRequest) -> Verdict | None:
    tool = request.tool
    if not tool.divisions or request.caller.division in tool.divisions:
        return None
    return Verdict("deny", "it belongs to another division")


def check_conversation(request: PolicyRequest) -> Verdict | None:
    """Deny a tool that is not enabled in the conversation."""
    # The application's tools came with the request itself: they need not be enabled.
    if request.tool.built_in or request.tool.venue == "client" or request.settings.allows(request.tool):
        return None
    return Verdict("deny", "it is not enabled in this conversation")


class DivisionTools(NamedTuple):
    """The divisions, and all tools that any of them lists."""

    divisions: Divisions
    listed: frozenset[str]


def build_division_tools(divisions: Divisions) -> DivisionTools:
    tool_lists = (division.tools for division in divisions.values())
    return DivisionTools(divisions, frozenset[str]().union(*(names for names in tool_lists if names is not None)))


def build_division_rule(versions: Versions[DivisionTools]) -> Rule:
    """Return the rule that restricts tools by division or tenant.

    A run gets no tool that the divisions of now, or those that it began with, keep from it.
    """

    def division_tools(request: PolicyRequest) -> Verdict | None:
        verdict = _check_divisions(request, versions.current)
        if verdict is None and request.begun_at < versions.changed_at:
            return _check_divisions(request, versions.get_at(request.begun_at))
        return verdict

    return division_tools


def _check_divisions(request: PolicyRequest, tools: DivisionTools) -> Verdict | None:
    """Deny a tool that the caller's division or tenant does not have.

    A division or tenant that lists tools has exactly those, and callers outside of all divisions do not have
    them. A division without a list may use every tool. The application's own tools are not restricted.
    """
    tool, caller = request.tool, request.caller
    if tool.built_in or tool.venue == "client":
        return None
    division = find_division(caller, tools.divisions)
    if division is None or (division.tools is None and not caller.division):
        return (
            Verdict("deny", "it belongs to a division or a tenant") if not tools.listed.isdisjoint(tool.names) else None
        )
    if division.tools is None or not division.tools.isdisjoint(tool.names):
        return None
    whose = f"division {caller.division}" if caller.division else f"tenant {caller.tenant}"
    return Verdict("deny", f"the {whose} does not have it")


BUILT_IN_RULES: tuple[Rule, ...] = (check_enabled, check_key, check_roles, check_division, check_conversation)


class OrderedPolicy:
    """The built-in rules, then the user's, then the tool's default."""

    def __init__(self, rules: Sequence[Rule] = (), divisions: Divisions = NO_DIVISIONS) -> None:
        self._division_tools = Versions(build_division_tools(divisions))
        self._own_rules = tuple(rules)
        self._rules = self._list_rules()
        self.cacheable = not rules

    def replace_divisions(self, divisions: Divisions, now: float) -> None:
        """Set the divisions from now on."""
        self._division_tools.replace(build_division_tools(divisions), now)
        self._rules = self._list_rules()

    def _list_rules(self) -> tuple[Rule, ...]:
        versions = self._division_tools
        has_any = bool(versions.current.divisions) or versions.changed_at > 0
        of_divisions = (build_division_rule(versions),) if has_any else ()
        return (*BUILT_IN_RULES, *of_divisions, *self._own_rules)

    def judge(self, request: PolicyRequest) -> Verdict:
        verdict = _ask_rules(self._rules, request)
        if verdict is None:
            verdict = _default_verdict(request)
        # After all rules: what the conversation asks for is never loosened by one that allows.
        if verdict.decision == "allow" and _is_asked(request):
            return Verdict("ask", "the conversation asks for an approval")
        return verdict

    def explain(self, request: PolicyRequest) -> list[CheckedRule]:
        """Return the rules that are asked, up to the one that decides."""
        checks: list[CheckedRule] = []
        for rule in self._rules:
            checks.append(build_checked_rule(_get_name(rule).removeprefix("check_"), _ask_rules((rule,), request)))
            if checks[-1].decision is not None:
                break
        else:
            checks.append(build_checked_rule("approval", _default_verdict(request)))
        if checks[-1].decision == "allow" and _is_asked(request):
            checks.append(build_checked_rule("conversation", self.judge(request)))
        return checks


def _get_name(rule: Callable[[PolicyRequest], object]) -> str:
    return getattr(rule, "__name__", type(rule).__name__)


def _is_asked(request: PolicyRequest) -> bool:
    tool, asked_tools = request.tool, request.settings.asked_tools
    return bool(asked_tools) and tool.venue != "client" and not asked_tools.isdisjoint(("*", *tool.names))


def _ask_rules(rules: Sequence[Callable[[PolicyRequest], object]], request: PolicyRequest) -> Verdict | None:
    """Return the verdict of the first rule that gives one."""
    for rule in rules:
        try:
            verdict = rule(request)
        except Exception:  # fail closed, and say so
            _log.exception("rule %s failed for tool %s; denied", _get_name(rule), request.tool.name)
            return Verdict("deny", f"the rule {_get_name(rule)} failed")
        if verdict is None:
            continue
        if isinstance(verdict, Verdict) and verdict.decision in ("allow", "ask", "deny"):
            return verdict
        return Verdict("deny", f"the rule {_get_name(rule)} gave no verdict")
    return None


def _default_verdict(request: PolicyRequest) -> Verdict:
    tool = request.tool
    # Approvers that the configuration adds to a tool without approval are meant to be asked.
    has_terms = get_approval_terms(tool) is not None
    if tool.approval == "never" and not has_terms:
        return Verdict("allow", "default")
    # The owner may have remembered all tools of the conversation, and may not decide alone here.
    if tool.approval == "ask" and not has_terms and any(approved.covers(tool) for approved in request.remembered):
        return Verdict("allow", "remembered")
    return Verdict("ask", f"approval = {'always' if tool.approval == 'never' else tool.approval}")
