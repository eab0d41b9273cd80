"""What requests with a whole history have in common: names of models, and which tools of the server may run."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid
from toolyard.core.settings.models.names import PLAIN
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.core.tools.web_search_rule import SearchMode
from toolyard.engine.service import Service
from toolyard.surfaces.http.errors import invalid_field

DEFAULT = "default"
"""The name of the configured model."""
SERVER_TOOLS_FIELD = "toolyard.server_tools"
IGNORED_HEADER = "toolyard-ignored"
"""Names the fields of the request that the model's provider does not get."""


class ToolyardFields(Struct, kw_only=True):
    """What the requests of other APIs have no fields for."""

    server_tools: str | list[str] = "all"
    """The server's tools that the run may use: `all`, `none`, or their names."""
    show_tools: bool = False
    """Whether the stream shows the server's tools at work."""
    web_search: SearchMode | bool | None = None
    """Where web searches run, as in the other APIs."""


def resolve_model(name: str) -> str:
    """Return the name of a request's model as the engine knows it; empty for the configured one."""
    name = name.removesuffix(PLAIN)
    return "" if name == DEFAULT else name


def read_server_tools(
    fields: ToolyardFields | None, model: str, service: Service, caller: Caller, field: str = SERVER_TOOLS_FIELD
) -> frozenset[str] | None:
    """Return the names of the server's tools that a request allows; None means all.

    Raise Invalid for unknown ones, with `field` as what names them.
    """
    choice = "none" if model.endswith(PLAIN) else fields.server_tools if fields else "all"
    match choice:
        case "all":
            return None
        case "none":
            return frozenset()
        case str():
            raise invalid_field(field, 'must be "all", "none" or a list of names')
        case names:
            names_of_server = {tool.name for tool in service.tools.list_usable(caller)}
            if unknown := [name for name in names if name not in names_of_server]:
                raise invalid_field(field, f"there is no tool {unknown[0][:80]!r}")
            return frozenset(names)


def build_ignored_header(
    service: Service, model: str, options: Options, fields: Mapping[str, str], unread: Sequence[str] = ()
) -> dict[str, str]:
    """Return the header that names what is not sent of a request, under its `fields`; none if all is sent.

    `unread` are further fields that have no effect.
    """
    ignored = service.models.list_ignored_options(resolve_model(model), options) if options != DEFAULT_OPTIONS else ()
    names = [*(fields.get(name, name) for name in ignored), *unread]
    return {IGNORED_HEADER: ", ".join(names)} if names else {}


@contextmanager
def name_sent_fields(names: Mapping[str, str]) -> Generator[None]:
    """Raise an error about an option under the name of the field that the client sent, where `names` has another."""
    try:
        yield
    except Invalid as error:
        prefix, _, name = str(error.details.get("field", "")).partition(".")
        if prefix != "options":
            raise
        message = str(error).removeprefix(f"the option {name} ")
        name = name.removeprefix("extra.")
        field = names.get(name, name)
        raise Invalid(f"{field}: {message}", {"field": field}) from None
