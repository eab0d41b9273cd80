"""Judges calls: does the tool exist, do the arguments match its schema, does the policy allow it?"""

from collections.abc import Callable, Sequence

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import CallEnded, CallJudged, Durable
from toolyard.core.conversation.run_state import CallState
from toolyard.core.conversation.state import State
from toolyard.core.failed_results import build_failed_result, build_rule_denied_result
from toolyard.core.items import Call, Problem, Result, UserMessage
from toolyard.core.ports import Policy, Verdict
from toolyard.core.settings.tool_rules import DEFAULT_TRUST, TrustRules
from toolyard.core.settings.versions import Versions
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.definition import Tool, get_approval_terms
from toolyard.core.tools.trust import (
    APPLICATION,
    SENT_HISTORY,
    UntrustedText,
    choose_decision,
    describe_sources,
    list_untrusted_descriptions,
    name_description_source,
    split_sources,
    to_untrusted_text,
)
from toolyard.engine.access.explanation import AccessExplanation, explain_access
from toolyard.engine.tools.caller_tools import RegisteredTool, is_certain
from toolyard.engine.tools.offers import Offers
from toolyard.engine.tools.registry import find_denial, get_caller

MAX_PROPOSAL_S = 600.0


class PolicyCheck:
    """Checks calls against the registry and the policy, once when they are requested and again before they run."""

    def __init__(
        self,
        offers: Offers,
        policy: Policy,
        trust: TrustRules = DEFAULT_TRUST,
        find_revocation: Callable[[Caller, float], str] = lambda caller, begun_at: "",
    ) -> None:
        """`find_revocation` returns why a run that began at a time may go on no more as its caller."""
        self._offers = offers
        self._find_revocation = find_revocation
        self._registry = offers.registry
        self._policy = policy
        self.trust_versions = Versions(trust)

    def judge(self, calls: Sequence[CallState], state: State, now: float) -> list[Durable]:
        """Return the events for requested calls: allowed, asking for approval, or ended with the reason."""
        surplus = set(list(state.calls)[state.run.limits.calls_per_turn if state.run else 0 :])
        events: list[Durable] = []
        for call in calls:
            # Only the model's own calls count: those of a program have a limit of their own.
            is_surplus = not call.parent and call.call.id in surplus
            events += self._judge_call(call, state, now, is_surplus=is_surplus)
        return events

    def recheck(self, call: CallState, state: State, now: float) -> RegisteredTool | list[Durable]:
        """Check a call again before it runs. Return its tool, or the events to emit instead of running it."""
        entry = self._registry.lookup(call, state)
        if entry is None:
            return [
                CallEnded(result=build_failed_result(call.call, "error", self._describe_unknown_tool(call, state), now))
            ]
        if problem := self._registry.validate(entry, call.arguments):
            return [CallEnded(result=build_failed_result(call.call, "error", problem, now))]
        verdict = self._ask_policy(entry, call, state)
        # An approval answers "ask" and nothing else: a rule that denies by now still stops an approved call. Nor does
        # it answer other terms, such as those of a rule that looks at arguments which the approver has changed, or
        # another tool that has got the name since.
        is_approved = (
            call.approved is not None
            and call.terms == _choose_terms(entry.tool, verdict)
            and call.tool in (None, entry.tool.identity)
        )
        if verdict.decision == "allow" or (verdict.decision == "ask" and is_approved):
            return entry
        return self._build_judgement(call, entry, verdict, state, now)

    def check_arguments(self, call: CallState, state: State, arguments: dict[str, object]) -> Problem | None:
        """Return what is wrong with edited arguments, or None."""
        entry = self._registry.lookup(call, state)
        return self._registry.validate(entry, arguments) if entry else None

    def _judge_call(self, call: CallState, state: State, now: float, *, is_surplus: bool) -> list[Durable]:
        problem = self._find_problem(call, state, is_surplus=is_surplus)
        entry = self._registry.lookup(call, state)
        if problem is None and entry is None:
            problem = self._describe_unknown_tool(call, state)
        if problem is None and entry is not None:
            problem = self._registry.validate(entry, call.arguments)
        if problem is not None or entry is None:
            assert problem is not None
            return [CallEnded(result=build_failed_result(call.call, "error", problem, now))]
        return self._build_judgement(call, entry, self._ask_policy(entry, call, state), state, now)

    def _describe_unknown_tool(self, call: CallState, state: State) -> Problem:
        return self._registry.describe_missing_tool(call.call.tool, state.offered, get_caller(state))

    def _find_problem(self, call: CallState, state: State, *, is_surplus: bool) -> Problem | None:
        run = state.run
        if is_surplus:
            max_calls = run.limits.calls_per_turn if run else 0
            error = f"only the first {max_calls} calls of a turn are run; ask for fewer at once"
            return Problem(error=error, error_type="too_large", details={"calls_per_turn": max_calls})
        if call.call.unreadable:
            return Problem(error=call.call.unreadable, error_type="json_parse_error")
        if run is None or run.direct:
            return None
        if run.request.tool_choice == "none":
            return Problem(error="this request is to be answered without tools", error_type="permission_denied")
        if call.call.tool in self._offers.plan_search(state).left_out:
            return Problem(error="this request's searches do not go to this tool", error_type="permission_denied")
        return None

    def find_revocation(self, state: State) -> str:
        """Return why nothing more of the open run may run: its caller's key was revoked. Empty if it may."""
        run = state.run
        return self._find_revocation(run.request.caller, run.started_at) if run is not None else ""

    def explain(self, caller: Caller, tool: str) -> AccessExplanation | None:
        """Return why a caller may or may not use a tool; None if there is no such tool."""
        return explain_access(self._registry, self._policy, self.trust_versions.current, caller, tool)

    def is_repeatable(self, call: CallState, state: State) -> bool:
        """Return whether a call may run again: its tool is repeatable, and certain to be the caller's version of it."""
        entry = self._registry.lookup(call, state)
        return entry is not None and entry.tool.repeatable and is_certain(entry, get_caller(state))

    def is_read_only(self, call: CallState, state: State) -> bool:
        """Return whether a call changes nothing: its tool only reads, and is certain to be the caller's version."""
        entry = self._registry.lookup(call, state)
        return entry is not None and entry.tool.read_only and is_certain(entry, get_caller(state))

    def _ask_policy(self, entry: RegisteredTool, call: CallState, state: State) -> Verdict:
        verdict = self._offers.judge(entry.tool, state, call.arguments)
        is_confirmed = call.call.confirm == "given" and _choose_terms(entry.tool, verdict) is None
        if verdict.decision == "ask" and is_confirmed:
            # The user confirmed in the message that started this run, and may decide in their own conversation.
            verdict = Verdict("allow", "confirmed in the message")
        for floor in (
            _find_confirmation_floor(call.call),
            self._find_trust_floor(entry.tool, call, state, self.trust_versions.current),
            *self._list_earlier_floors(entry.tool, call, state),
            find_denial(entry.hooks.authorize, get_caller(state)),
            self._find_revocation_floor(state),
        ):
            if floor is not None:
                verdict = verdict.raise_to(floor)
        return verdict

    def _find_revocation_floor(self, state: State) -> Verdict | None:
        reason = self.find_revocation(state)
        return Verdict("deny", reason) if reason else None

    def _list_earlier_floors(self, tool: Tool, call: CallState, state: State) -> Sequence[Verdict | None]:
        """Return the floors of a call by the rules that its run began with, if others were set since."""
        versions, run = self.trust_versions, state.run
        if run is None:
            return ()
        earlier = self._offers.find_earlier(tool, state)
        if earlier is None and run.started_at >= versions.changed_at:
            return ()
        return (self._find_trust_floor(earlier or tool, call, state, versions.get_at(run.started_at)),)

    def _find_trust_floor(self, tool: Tool, call: CallState, state: State, trust: TrustRules) -> Verdict | None:
        """Return the floor of a call after untrusted content. What a person asked for directly has none.

        A program that a person started has one for the results that it has been given.
        """
        is_direct = call.call.confirm == "given" or (state.run is not None and state.run.direct)
        if is_direct and not _list_program_results(call, state):
            return None
        decision = choose_decision(tool, get_caller(state), trust)
        if decision == "allow" or not (untrusted := self._list_untrusted(tool, call, state, trust)):
            return None
        return Verdict(decision, f"after content from {untrusted[-1].source}")

    def _list_untrusted(self, tool: Tool, call: CallState, state: State, trust: TrustRules) -> list[UntrustedText]:
        """Return the untrusted content that the model, or its program, has been shown before a call of this tool."""
        trusted = set[str]()
        if trust.trust_client_results:
            trusted.add(APPLICATION)
        if trust.trust_client_history:
            trusted.add(SENT_HISTORY)
        if tool.server:
            trusted.add(name_description_source(tool.server))  # for the reason in list_untrusted_descriptions
        shown = state.history.list_untrusted()
        if call.parent:
            shown = [*shown, *_list_program_results(call, state)]
        items = [item for item in shown if not trusted.issuperset(split_sources(item))]
        descriptions = list_untrusted_descriptions(state.unreviewed, self._offers.list_offered(state), tool)
        received = [item for item in items if isinstance(item, Result | UserMessage)]
        # A person is shown what strangers wrote, and what the model wrote after it only if nothing else is left.
        return [*descriptions, *map(to_untrusted_text, received)] or [to_untrusted_text(item) for item in items]

    def _build_judgement(
        self, call: CallState, entry: RegisteredTool, verdict: Verdict, state: State, now: float
    ) -> list[Durable]:
        is_asked = verdict.decision == "ask"
        untrusted = self._list_untrusted(entry.tool, call, state, self.trust_versions.current) if is_asked else []
        terms = _choose_terms(entry.tool, verdict) if is_asked else None
        judged = CallJudged(
            call_id=call.call.id,
            verdict=verdict.decision,
            rule=verdict.rule,
            exclusive=entry.tool.exclusive or entry.tool.destructive,
            expires_at=now + _decision_timeout_s(call.call, entry.tool, terms) if is_asked else 0.0,
            sources=describe_sources(untrusted, call.arguments) if untrusted else (),
            terms=terms,
            tool=entry.tool.identity if is_asked else None,
        )
        if verdict.decision == "deny":
            return [judged, CallEnded(result=build_rule_denied_result(call.call, verdict.rule, now))]
        return [judged]


def _list_program_results(call: CallState, state: State) -> list[Result]:
    """Return the untrusted results that a program had been given when it asked for this call; none for another call."""
    program = state.calls[call.parent].program if call.parent else None
    ended = program.ended[: call.seen] if program else ()
    return [child.result for child in ended if child.result.untrusted]


def _find_confirmation_floor(call: Call) -> Verdict | None:
    """Return the floor of a proposal: no rule and no remembered approval lets it run unconfirmed."""
    return Verdict("ask", "it was proposed and has to be confirmed") if call.confirm == "ask" else None


def _choose_terms(tool: Tool, verdict: Verdict) -> ApprovalTerms | None:
    """Return who may decide a call: those of the rule that asks, else those of the tool."""
    return verdict.terms or get_approval_terms(tool)


def _decision_timeout_s(call: Call, tool: Tool, terms: ApprovalTerms | None) -> float:
    """Return how long to wait for a decision. A proposal belongs to the current dialogue and expires sooner.

    One that others decide does not: they are not in the dialogue.
    """
    if terms is not None:
        return tool.approval_s if terms.within_s is None else terms.within_s
    return min(tool.approval_s, MAX_PROPOSAL_S) if call.confirm == "ask" else tool.approval_s
