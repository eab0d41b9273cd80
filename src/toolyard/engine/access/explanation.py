"""Explains whether a caller may use a tool: each rule that is asked, and the one that decides. It runs nothing."""

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import Decision
from toolyard.core.conversation.settings import Settings
from toolyard.core.ports import STRICTNESS, CheckedRule, Policy, PolicyRequest, Verdict, build_checked_rule
from toolyard.core.settings.tool_rules import AfterUntrusted, TrustRules
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.definition import Tool, get_approval_terms
from toolyard.core.tools.trust import choose_decision
from toolyard.engine.tools.registry import Registry, find_denial

OWN_CHECK = "the tool's own check"


class ApprovalNeed(Struct, frozen=True, kw_only=True):
    """What a decision on a call takes."""

    approvers: str
    """Who may decide, in words."""
    other: bool
    """Whether the caller who asks may not decide."""
    needed: int
    reason_required: bool
    approval_s: float


class AccessExplanation(Struct, frozen=True, kw_only=True):
    """Whether a caller may use a tool, and why. A conversation may restrict it further."""

    tool: str
    user: str
    tenant: str
    roles: list[str]
    decision: Decision
    rule: str
    """The rule that decides."""
    reason: str
    checks: list[CheckedRule]
    """The rules in the order in which they are asked, up to the one that decides."""
    approval: ApprovalNeed | None = None
    """Who decides a call, if it asks."""
    after_untrusted: AfterUntrusted = "allow"
    """How a call is restricted after untrusted content."""


def explain_access(
    registry: Registry, policy: Policy, trust: TrustRules, caller: Caller, name: str
) -> AccessExplanation | None:
    """Return why a caller may or may not use a tool; None if there is no such tool."""
    entry = registry.find(name, caller=caller)
    if entry is None:
        return None
    request = PolicyRequest(tool=entry.tool, caller=caller, settings=Settings())
    checks = list(policy.explain(request))
    if entry.hooks.authorize is not None:
        checks.append(build_checked_rule(OWN_CHECK, find_denial(entry.hooks.authorize, caller)))
    # The strictest verdict decides, and the first of equals: as when a call is judged.
    decided = [check for check in checks if check.decision is not None]
    deciding = max(decided, key=lambda check: STRICTNESS[check.decision or "allow"])
    decision = deciding.decision or "allow"
    return AccessExplanation(
        tool=entry.tool.name,
        user=caller.user,
        tenant=caller.tenant,
        roles=sorted(caller.roles),
        decision=decision,
        rule=deciding.rule,
        reason=deciding.reason,
        checks=checks,
        approval=_build_approval_need(entry.tool, policy.judge(request)) if decision == "ask" else None,
        after_untrusted=choose_decision(entry.tool, caller, trust),
    )


def _build_approval_need(tool: Tool, verdict: Verdict) -> ApprovalNeed:
    terms = verdict.terms or get_approval_terms(tool) or ApprovalTerms()
    return ApprovalNeed(
        approvers=terms.describe_approvers(),
        other=terms.other,
        needed=terms.quorum,
        reason_required=terms.reason_required,
        approval_s=tool.approval_s if terms.within_s is None else terms.within_s,
    )
