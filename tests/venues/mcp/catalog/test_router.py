"""The table of names: every tool has one that every provider takes, and each leads back."""

from hypothesis import given
from hypothesis import strategies as st

from toolyard.core.tools import NAME_PATTERN
from toolyard.venues.mcp import Route, Router

ANY = st.text(max_size=80)


def test_the_first_keeps_the_plain_name_and_the_second_has_its_servers_before_it() -> None:
    router = Router()
    assert router.assign(Route("files", "read")) == "read"
    assert router.assign(Route("notes", "read")) == "notes__read"
    assert router.assign(Route("files", "read")) == "read", "a name is given once"


def test_a_name_of_another_venue_is_taken() -> None:
    assert Router().assign(Route("files", "read"), reserved_names={"read"}) == "files__read"


def test_a_long_name_is_cut_and_told_apart_from_its_neighbour() -> None:
    router = Router()
    first, second = (router.assign(Route("s", "x" * 300 + end)) for end in "ab")
    assert len(first) == len(second) == 64 and first != second


def test_a_server_that_is_forgotten_leaves_its_names() -> None:
    router = Router()
    router.assign(Route("files", "read"))
    router.remove_server("files")
    assert router.assign(Route("notes", "read")) == "read"


@given(st.lists(st.tuples(ANY, ANY), max_size=30), st.sets(st.sampled_from(["read", "a__read", ""])))
def test_every_name_can_be_offered_and_leads_back(pairs: list[tuple[str, str]], taken: set[str]) -> None:
    router = Router()
    for server, tool in pairs:
        if tool:
            name = router.assign(Route(server, tool), taken)
            assert NAME_PATTERN.fullmatch(name) and name not in taken
            assert router.find_route(name) == Route(server, tool)


def test_the_same_tools_get_the_same_names_in_another_process() -> None:
    first, second = Router(), Router()
    routes = [Route("a", "x.y"), Route("b", "x/y"), Route("c", "x" * 100)]
    names = {route: first.assign(route) for route in routes}
    for route in reversed(routes):
        second.reserve(names[route], route)
    assert {route: second.assign(route) for route in routes} == names
