"""Read what requests for chat completions and for responses have in common: options and tool choice. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from toolyard.core.json_types import is_object
from toolyard.core.settings.models.options import ANY_OBJECT, Options, Thinking
from toolyard.core.tools.web_search_rule import SearchMode, parse_search
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.shared.answer_options import WebSearchFields
from toolyard.surfaces.shared.whole_history.sent_fields import ToolyardFields

_EFFORTS: Mapping[str, Thinking] = {
    "none": 0,
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
}


class JsonSchemaFormat(Struct, kw_only=True):
    name: str = ""
    description: str | None = None
    schema: dict[str, object] | None = None
    strict: bool | None = None


class OptionFields(WebSearchFields, kw_only=True):
    """The options that both requests have and that are passed on if the provider has them."""

    service_tier: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    top_logprobs: int | None = None

    def read_extra(self, **more: object) -> dict[str, object]:
        """Return the extra options of the request: these, its metadata, and `more`."""
        fields = {
            **more,
            "metadata": self.metadata or None,
            "service_tier": self.service_tier,
            "user": self.user,
            "safety_identifier": self.safety_identifier,
            "prompt_cache_key": self.prompt_cache_key,
        }
        return {name: value for name, value in fields.items() if value is not None}


def read_search_mode(fields: WebSearchFields, own_fields: ToolyardFields | None, options: object = None) -> SearchMode:
    """Return where searches run; `options` are OpenAI's own, which ask for one. Raise Invalid for a contradiction."""
    mode = parse_search({"web_search": options}, fields.search_mode)
    return parse_search({"web_search": own_fields.web_search if own_fields else None}, mode)


class ConversationField(Struct, kw_only=True):
    id: str


def read_conversation_id(field: str | ConversationField | None) -> str:
    return field.id if isinstance(field, ConversationField) else field or ""


def read_output_schema(kind: str, schema: dict[str, object] | None, param: str) -> dict[str, object] | None:
    """Return the schema of the answer that a format asks for; None means free text."""
    match kind:
        case "" | "text":
            return None
        case "json_object":
            return dict(ANY_OBJECT)
        case "json_schema":
            if schema is None:
                raise invalid_field(param, "has no schema")
            return schema
        case _:
            raise invalid_field(param, f"the type {kind[:40]!r} is none of text, json_object, json_schema")


def read_effort(effort: str | None, param: str) -> Thinking:
    if not effort:
        return ""
    if effort not in _EFFORTS:
        raise invalid_field(param, f"{effort[:40]!r} is none of {', '.join(_EFFORTS)}")
    return _EFFORTS[effort]


def build_options(
    *,
    max_tokens: int | None,
    temperature: float | None,
    top_p: float | None,
    stop: str | list[str] | None = None,
    seed: int | None = None,
    output_schema: dict[str, object] | None,
    thinking: Thinking,
    parallel_tool_calls: bool | None,
    extra: dict[str, object],
) -> Options:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    return Options(
        max_tokens=max_tokens or 0,
        temperature=temperature,
        top_p=top_p,
        stop=stops,
        seed=seed,
        output_schema=output_schema,
        thinking=thinking,
        # Calls at once are what every provider does unless it is told otherwise.
        parallel_tool_calls=False if parallel_tool_calls is False else None,
        extra=extra,
    )


def read_tool_choice(choice: object, param: str) -> str:
    """Return `auto`, `none`, `required` or the name of a tool."""
    if choice is None:
        return "auto"
    if isinstance(choice, str):
        return choice
    if is_object(choice):
        table = choice
        function = table.get("function")
        name = function.get("name") if is_object(function) else table.get("name")
        if table.get("type") == "function" and isinstance(name, str) and name:
            return name
    raise invalid_field(param, 'must be "auto", "none", "required", or the name of a function')
