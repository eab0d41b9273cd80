"""Checks a command against the tools and models. `core.conversation.decide` checks it against the state."""

from msgspec import UnsetType
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import AddMessage, Approve, Change, Open, Start, StateCommand
from toolyard.core.conversation.decide import has_question
from toolyard.core.conversation.events import RunQueued
from toolyard.core.conversation.history import find_direct_calls, find_faults
from toolyard.core.conversation.run_state import RunState
from toolyard.core.conversation.state import State
from toolyard.core.errors import Forbidden, Invalid, Misconfigured, Refused
from toolyard.core.masking import mask_addresses
from toolyard.core.settings.models.access import is_denied, list_denied_models
from toolyard.core.settings.models.cards import describe_model_problem
from toolyard.core.settings.models.names import PRESET_PREFIX, is_address_or_file, matches_any
from toolyard.core.settings.models.options import check_options
from toolyard.core.settings.texts import check_language
from toolyard.core.tools.definition import may_use_with_key
from toolyard.engine.dependencies import Deps
from toolyard.engine.tools.web_search_plan import SearchPlan


def check_command(command: StateCommand, state: State, deps: Deps) -> None:
    """Raise Invalid for a command that this server cannot carry out."""
    may_name_address = isinstance(command, (Start, Change)) and command.may_name_address
    if isinstance(command, (Open, AddMessage, Start)):
        check_named_model(command.settings.model, deps, may_name_address=may_name_address)
        check_language(command.settings.language)
    if isinstance(command, Start):
        check_language(command.run.language)
        check_options(command.run.options)
        _check_output_schema(command, deps)
        if not (command.input or command.delivers) and not has_question(state.history):
            raise Invalid("there is nothing to answer: send a message", {"field": "input"})
        _check_start(command, deps)
        _check_preset(command, state)
        _check_model(command, state, deps)
        _check_search(command, state, deps)
    elif isinstance(command, Change):
        check_named_model(command.change.model or "", deps, may_name_address=may_name_address)
        if not isinstance(command.change.model, UnsetType):
            # Queued runs go on with the model, or without one with the server's default: the caller must be admitted.
            model = command.preset.model if command.preset else command.change.model
            _require_model(command.by, model or deps.default_model, deps)
        check_language(command.change.language or "")
    elif isinstance(command, Approve):
        _check_approval(command, state, deps)


def bind_tools(command: StateCommand, state: State, deps: Deps) -> StateCommand:
    """Return the command with the tools that the names in its settings are bound to now."""
    if isinstance(command, Change):
        preset = command.preset
        if preset is not None:
            preset = replace(preset, change=preset.change.bind_tools(deps.find_tool_identity))
        return replace(command, change=command.change.bind_tools(deps.find_tool_identity), preset=preset)
    if isinstance(command, Start) and command.run.preset is not None:
        preset = command.run.preset.bind_tools(deps.find_tool_identity)
        command = replace(command, run=replace(command.run, preset=preset))
    if isinstance(command, (Open, AddMessage, Start)) and state.owner is None and command.settings.tools is not None:
        return replace(command, settings=command.settings.bind_tools(deps.find_tool_identity))
    return command


def _check_approval(command: Approve, state: State, deps: Deps) -> None:
    """Raise Forbidden if the approver's key is not for the tool, and Invalid for wrong arguments."""
    call = state.calls.get(command.call_id)
    entry = deps.registry.lookup(call, state) if call else None
    if call is None or entry is None:
        return
    # The approval runs the call, which this key could not.
    if not may_use_with_key(entry.tool, command.by):
        raise Forbidden(f"your key is not for the tool {call.call.tool[:80]!r}")
    if command.arguments is None:
        return
    if problem := deps.policy_check.check_arguments(call, state, command.arguments):
        raise Invalid(problem.error, problem.details)


def _check_start(command: Start, deps: Deps) -> None:
    registry = deps.registry
    check_named_model(command.run.model, deps, may_name_address=command.may_name_address)
    if wrong := find_faults(command.input, open_end=True):
        raise Invalid(f"no model would take this history: {'; '.join(wrong)}", {"field": "input"})
    try:
        registry.check_app_tools(command.run.app_tools)
    except Misconfigured as error:
        raise Invalid(str(error)) from None
    choice = command.run.tool_choice
    if choice not in ("auto", "none", "required") and registry.find(choice, command.run.app_tools, command.by) is None:
        offered = [tool.name for tool in (*registry.usable_tools(command.by), *command.run.app_tools)]
        problem = registry.describe_missing_tool(choice, offered, command.by)
        raise Invalid(problem.error, {"field": "tool_choice"})


def _check_preset(command: Start, state: State) -> None:
    """Raise Refused if the conversation's model has become a preset after the command's own was looked up."""
    settings = state.settings if state.owner else command.settings
    if (command.run.model or settings.model).startswith(PRESET_PREFIX):
        raise Refused("the model of the conversation has just been changed: send the message again")


def _check_model(command: Start, state: State, deps: Deps) -> None:
    """Raise Forbidden if the run would use a model that is not for the caller. Direct calls use none."""
    if (command.by.models or deps.model_access) and not find_direct_calls(command.input):
        settings = state.settings if state.owner else command.settings
        _require_model(command.by, command.run.model or settings.model or deps.default_model, deps)


def _require_model(caller: Caller, model: str, deps: Deps) -> None:
    if not model or model.startswith(PRESET_PREFIX):
        return  # the model of a preset is checked when a run starts with it
    shown = mask_addresses(model[:80], every_parameter=True)
    if not caller.may_use_model(model):
        raise Forbidden(f"your key is not for the model {shown!r}")
    if is_denied(model, list_denied_models(caller, deps.model_access)):
        raise Forbidden(f"the model {shown!r} is not for your roles or your tenant")


def _check_output_schema(command: Start, deps: Deps) -> None:
    if command.run.options.output_schema is None:
        return
    try:
        deps.registry.schemas.compile_output(command.run.options.output_schema)
    except Misconfigured as error:
        raise Invalid(str(error), {"field": "options.output_schema"}) from None


def _check_search(command: Start, state: State, deps: Deps) -> None:
    """Raise Invalid if the command names a kind of web search that is not available."""
    settings = state.settings if state.owner else command.settings
    if not (command.run.web_search or settings.web_search):
        return
    search = plan_search(command, state, deps).search
    if search is not None and search.refused:
        raise Invalid(search.why, {"field": "web_search"})


def plan_search(command: Start, state: State, deps: Deps) -> SearchPlan:
    """Return the plan for the web searches of the run that a command would start."""
    settings = state.settings if state.owner else command.settings
    request = RunQueued(caller=command.by, input=(), app_tools=command.run.app_tools, web_search=command.run.web_search)
    run = RunState(
        id=command.run_id,
        correlation_id="",
        request=request,
        model=command.run.model or settings.model or deps.default_model,
        limits=deps.limits,
        settings=settings,
        started_at=deps.clock.now(),
    )
    return deps.offers.plan_search(replace(state, settings=settings, run=run))


def check_named_model(model: str, deps: Deps, *, may_name_address: bool) -> None:
    """Raise Invalid if a request may not name a model, or if the model cannot be used."""
    allowed = deps.allowed_models
    if not model or model == deps.default_model or model.startswith(PRESET_PREFIX):
        return  # each run finds its preset when it starts
    # A request may come from anybody whom the application lets in: it must not choose who gets the model's key.
    if allowed is None and is_address_or_file(model) and not may_name_address:
        why = "is an address or a file, which no request may name: configure it, or name it in the library's methods"
        raise Invalid(f"the model {model[:80]!r} {why}", {"field": "model"})
    if allowed is not None and model not in allowed and not matches_any(model, deps.model_patterns):
        names = mask_addresses(", ".join((*sorted(allowed), *deps.model_patterns)), every_parameter=True)
        raise Invalid(f"the model {model[:80]!r} is not one of: {names}", {"field": "model"})
    try:
        deps.models(model)
    except Misconfigured as error:
        problem = describe_model_problem(error)
        raise Invalid(f"the model {model[:80]!r} cannot be used: {problem}", {"field": "model"}) from None
