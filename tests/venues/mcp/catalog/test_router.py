"""The table of names: every tool has one that every provider takes, and each leads back."""

from hypothesis import given
from hypothesis import strategies as st

from toolyard.core.tool_identity import ToolIdentity
from toolyard.core.tools.definition import NAME_PATTERN
from toolyard.venues.mcp import Router

ANY = st.text(max_size=80)


def test_the_first_keeps_the_plain_name_and_the_second_has_its_servers_before_it() -> None:
    router = Router()
    assert router.assign(ToolIdentity("files", "read")) == "read"
    assert router.assign(ToolIdentity("notes", "read")) == "notes__read"
    assert router.assign(ToolIdentity("files", "read")) == "read", "a name is given once"


def test_a_name_of_another_venue_is_taken() -> None:
    assert Router().assign(ToolIdentity("files", "read"), reserved_names={"read"}) == "files__read"


def test_a_long_name_is_cut_and_told_apart_from_its_neighbour() -> None:
    router = Router()
    first, second = (router.assign(ToolIdentity("s", "x" * 300 + end)) for end in "ab")
    assert len(first) == len(second) == 64 and first != second


def test_names_that_are_freed_may_be_bound_to_another_tool() -> None:
    router, first, second = Router(), ToolIdentity("files", "read"), ToolIdentity("notes", "read")
    router.assign(first)
    router.unbind(router.list_server_names("files"))
    assert router.assign(second) == "read" and router.find_identity("read") == second
    assert router.assign(first) == "files__read"


def test_an_alias_is_kept_for_the_server_that_the_configuration_names_first() -> None:
    router = Router()
    for server in ("files", "notes"):
        router.keep_aliases(server, {"read": "open"})
    assert router.assign(ToolIdentity("notes", "read"), alias="open") == "notes__open", "it has connected first"
    assert router.assign(ToolIdentity("web", "open")) == "web__open"
    assert router.assign(ToolIdentity("files", "read"), alias="open") == "open"
    router.keep_aliases("notes", {"read": "open"})
    assert router.assign(ToolIdentity("notes", "read"), alias="open") == "notes__open"


def test_a_tool_keeps_the_names_that_it_had_under_another_configuration() -> None:
    router, tool = Router(), ToolIdentity("files", "read")
    assert [router.assign(tool, alias=alias) for alias in ("", "open", "", "open", "show")] == [
        "read",
        "open",
        "read",
        "open",
        "show",
    ]
    assert router.list_names(tool) == ["read", "open", "show"]
    assert router.assign(ToolIdentity("notes", "read")) == "notes__read"


@given(st.lists(st.tuples(ANY, ANY), max_size=30), st.sets(st.sampled_from(["read", "a__read", ""])))
def test_every_name_can_be_offered_and_leads_back(pairs: list[tuple[str, str]], taken: set[str]) -> None:
    router = Router()
    for server, tool in pairs:
        if tool:
            name = router.assign(ToolIdentity(server, tool), taken)
            assert NAME_PATTERN.fullmatch(name) and name not in taken
            assert router.find_identity(name) == ToolIdentity(server, tool)


def test_the_same_tools_get_the_same_names_in_another_process() -> None:
    first, second = Router(), Router()
    routes = [ToolIdentity("a", "x.y"), ToolIdentity("b", "x/y"), ToolIdentity("c", "x" * 100)]
    names = {route: first.assign(route) for route in routes}
    for route in reversed(routes):
        second.bind(names[route], route)
    assert {route: second.assign(route) for route in routes} == names
