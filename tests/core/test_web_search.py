"""Where a search runs: the whole table, and that nothing else is ever decided."""

from itertools import product
from pathlib import Path
from typing import Literal

import pytest

from toolyard.core.errors import Invalid
from toolyard.core.tools.web_search_rule import Preference, SearchFacts, SearchMode, choose_search, merge_modes

AskedMode = Literal["auto", "native", "mcp", "duckduckgo", "off"]
WISHES: tuple[AskedMode, ...] = ("auto", "native", "mcp", "duckduckgo", "off")
DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "web-search.md"


def build_facts(
    native: bool, own_search: bool, mixes_tools: bool = True, has_other_tools: bool = False, control: bool = False
) -> SearchFacts:
    no_native, no_own = "" if native else "it has none", "" if own_search else "none runs"
    return SearchFacts(
        no_native=no_native, no_own=no_own, mixes_tools=mixes_tools, has_other_tools=has_other_tools, control=control
    )


@pytest.mark.proves("002.auto-native")
def test_auto_takes_the_provider_s_where_it_has_one() -> None:
    for has_own in (True, False):
        assert choose_search("auto", build_facts(native=True, own_search=has_own)).where == "native"


@pytest.mark.proves("002.auto-unsupported")
def test_auto_takes_mcp_where_the_provider_has_none() -> None:
    assert choose_search("auto", build_facts(native=False, own_search=True)).where == "mcp"


@pytest.mark.proves("002.auto-custom-control", "002.auto-logging")
def test_auto_never_takes_the_provider_s_where_control_is_needed() -> None:
    assert choose_search("auto", build_facts(native=True, own_search=True, control=True)).where == "mcp"
    nowhere = choose_search("auto", build_facts(native=True, own_search=False, control=True))
    assert (nowhere.where, nowhere.refused) == ("off", False) and "full logging" in nowhere.why


def test_where_a_provider_takes_no_functions_beside_its_own_auto_keeps_the_functions() -> None:
    assert (
        choose_search("auto", build_facts(native=True, own_search=True, mixes_tools=False, has_other_tools=True)).where
        == "mcp"
    )
    assert (
        choose_search("auto", build_facts(native=True, own_search=False, mixes_tools=False, has_other_tools=True)).where
        == "off"
    )
    alone = choose_search("auto", build_facts(native=True, own_search=True, mixes_tools=False, has_other_tools=False))
    assert (alone.where, alone.alone) == ("native", True)
    insisted = choose_search(
        "native", build_facts(native=True, own_search=True, mixes_tools=False, has_other_tools=True)
    )
    assert (insisted.where, insisted.alone) == ("native", True)


def read_rows() -> list[list[str]]:
    """The table of the page: the wishes, then yes, no or any for each fact, then what comes of it."""
    lines = [line.strip("| \n").split(" | ") for line in DOCS.read_text().splitlines() if line.startswith("| ")]
    return [cells for cells in lines if len(cells) == 6][1:]


def read_outcome(mode: str, *conditions: bool) -> str:
    facts = ["yes" if condition else "no" for condition in conditions]
    for wishes, *conditions_asked, outcome in read_rows():
        if mode in wishes.split(", ") and all(
            want in ("any", fact) for want, fact in zip(conditions_asked, facts, strict=True)
        ):
            return outcome
    raise AssertionError(f"the page does not say what becomes of {mode} with {facts}")


@pytest.mark.parametrize("mode", WISHES)
def test_the_rule_is_the_table_of_the_page_for_all_that_can_be(mode: AskedMode) -> None:
    for native, has_own, mixes_tools, has_other_tools, control in product((True, False), repeat=5):
        search_facts = build_facts(native, has_own, mixes_tools, has_other_tools, control)
        choice = choose_search(mode, search_facts)
        outcome = "refused" if choice.refused else choice.where
        assert outcome == read_outcome(mode, native, has_own, control, has_other_tools and not mixes_tools), (
            search_facts
        )
        assert choice.why and choice.alone == (choice.where == "native" and not mixes_tools)
        assert not choice.refused or (choice.where == "off" and "ask for auto" in choice.why)


@pytest.mark.proves("002.search-switch", "002.prefer-native", "002.prefer-mcp")
@pytest.mark.parametrize(
    ("use", "preference", "mode"),
    [
        (True, "ai-web-search", "native"),
        (True, "mcp", "mcp"),
        (True, "duckduckgo", "duckduckgo"),
        (True, None, "auto"),
        (None, "ai-web-search", "native"),
        (None, None, ""),
        (False, None, "off"),
        (False, "mcp", "off"),
    ],
)
def test_the_older_words_mean_the_same(use: bool | None, preference: Preference | None, mode: SearchMode) -> None:
    assert merge_modes("", use, preference) == mode


def test_both_ways_of_saying_it_at_once_are_refused() -> None:
    assert merge_modes("mcp") == "mcp"
    with pytest.raises(Invalid, match="not both"):
        merge_modes("auto", use_web_search=False)
    with pytest.raises(Invalid, match="not both"):
        merge_modes("auto", web_search_preference="mcp")
