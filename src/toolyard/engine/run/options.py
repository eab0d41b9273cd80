"""The options of a request, as keyword arguments that a type checker knows by name and type."""

import difflib
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Literal, TypedDict, cast, get_args, get_origin, get_type_hints

from toolyard.core.caller import Caller
from toolyard.core.conversation.context.notes import to_notes
from toolyard.core.conversation.events import RunRequest
from toolyard.core.conversation.settings import Settings
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.web_search_rule import SearchMode


class StartOptions(TypedDict, total=False):
    """The options of a request that are stored with its run. Each one may be left out."""

    correlation_id: str
    """An id that every log line of the request names; a new one if it is left out."""
    tool_choice: str
    """`auto`, `none`, `required`, or the name of the tool to call first."""
    model: str
    """The name of a model in place of the yard's."""
    limits: Limits | None
    web_search: SearchMode
    context: Mapping[str, object]
    """Named values of this request for the model, and for tools as `context.fields`."""
    language: str
    """The language of Toolyard's own messages to the user."""
    settings: Settings | None
    """The settings of the conversation if this request opens it."""
    app_tools: Sequence[Tool]
    """Tools that the application runs: it delivers their results."""
    interrupt: bool
    """Stop the conversation's current run instead of waiting for it."""
    options: Options
    """How the model is to answer: temperature, token limit, output schema …"""
    ends_on_expiry: bool
    """End the run, without another model request, when a call that waits for the application expires."""


class RunOptions(StartOptions, total=False):
    """The keyword arguments of `Yard.run`, `Yard.ask` and `Yard.execute`. Each one may be left out."""

    caller: Caller
    conversation: str
    """The id of a conversation to continue; a new one if it is left out."""


def build_run_request(options: StartOptions) -> RunRequest:
    """Return what the options ask of the run. Raises Invalid if the context is too large."""
    return RunRequest(
        app_tools=tuple(options.get("app_tools", ())),
        tool_choice=options.get("tool_choice", "auto"),
        model=options.get("model", ""),
        limits=options.get("limits"),
        web_search=options.get("web_search", ""),
        context=to_notes(options.get("context", {})),
        language=options.get("language", ""),
        options=options.get("options", DEFAULT_OPTIONS),
        ends_on_expiry=options.get("ends_on_expiry", False),
    )


def _list_types(hint: object) -> tuple[type, ...]:
    """Return the outermost types of a hint. The values of a literal or a container are checked where they are used."""
    origin = get_origin(hint)
    if origin is UnionType:
        return tuple(kind for part in get_args(hint) for kind in _list_types(part))
    return (str,) if origin is Literal else (cast(type, origin or hint),)


_TYPES = {name: _list_types(hint) for name, hint in get_type_hints(RunOptions).items()}
_MODEL_OPTIONS = Options.__struct_fields__
THREAD_PREFIX = "thread_"
"""The beginning of the ids of conversations that belong to threads of front ends. Only those surfaces open them."""
MIN_SIMILARITY = 0.7
"""How similar a name must be to be suggested, from 0 to 1: `may_open` is not meant as `max_tokens`."""


def check_run_options(options: Mapping[str, object]) -> None:
    """Raise TypeError, with what to write instead, for an unknown name or a value of another type.

    Raise ValueError for the id of a conversation that belongs to a thread of a front end.
    """
    for name, value in options.items():
        if name not in _TYPES:
            raise TypeError(f"run() has no option {name!r}; {_suggest_name(name)}")
        if not isinstance(value, _TYPES[name]):
            hint = "; write options=Options(temperature=…)" if name == "options" else ""
            raise TypeError(f"run({name}=…) takes {_describe_types(name)}, not {type(value).__name__}{hint}")
    if str(options.get("conversation", "")).startswith(THREAD_PREFIX):
        why = f"ids that begin with {THREAD_PREFIX!r} are those of front ends' threads; choose another id"
        raise ValueError(f"run(conversation={options['conversation']!r}): {why}")


def _suggest_name(name: str) -> str:
    near = difflib.get_close_matches(name, (*_TYPES, "output_type", *_MODEL_OPTIONS), n=1, cutoff=MIN_SIMILARITY)
    if not near:
        return f"it takes {', '.join(sorted(_TYPES))}"
    return f"did you mean options=Options({near[0]}=…)?" if near[0] in _MODEL_OPTIONS else f"did you mean {near[0]}=…?"


def _describe_types(name: str) -> str:
    return " or ".join("None" if kind is NoneType else kind.__name__ for kind in _TYPES[name])
