"""The index: the right tool first, whatever came and went before, and only tools that may be used."""

import random
from collections.abc import Sequence
from time import process_time

from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.core.tools import Tool
from toolyard.tool_index import ToolIndex
from toolyard.tool_index.index import EXTRA_CANDIDATES

LETTERS = str.maketrans("0123456789", "qwxzvkjhgb")
NAMES = ["add_to_cart", "remove_from_cart", "search_products", "get_weather", "send_email", "list_emails"]


def tool(name: str, description: str = "", **parameters: dict[str, object]) -> Tool:
    return Tool(name=name, description=description, parameters={"type": "object", "properties": parameters})


def index_of(*tools: Tool) -> ToolIndex:
    index = ToolIndex()
    for one in tools:
        index.put(one)
    return index


def found(index: ToolIndex, query: str, most: int = 5) -> list[str]:
    return [one.tool.name for one in index.search(query, most)]


SHOP = (
    tool("search_products", "Find products in the shop by name"),
    tool("add_to_cart", "Put a product into the cart", code={"type": "string", "description": "the product's code"}),
    tool("get_weather", "The weather of a city", unit={"enum": ["celsius", "fahrenheit"]}),
    Tool(name="search_materials", description="搜索原料信息", examples=("帮我查找面粉原料", "有没有白砂糖")),
    Tool(name="format_report", description="把原料的库存整理成报表", examples=("生成面粉库存报表",)),
)


def test_a_tool_is_found_by_what_it_says_anywhere() -> None:
    index = index_of(*SHOP)
    assert found(index, "put it in the cart")[0] == "add_to_cart"
    assert found(index, "is it cold in celsius")[0] == "get_weather"
    assert found(index, "which code was it")[0] == "add_to_cart"
    assert found(index, "finding shops")[0] == "search_products"
    assert found(index, "帮我找一下面粉")[0] == "search_materials"
    assert found(index, "做一个库存的报表")[0] == "format_report"


def test_a_word_that_means_the_same_is_found_but_the_word_itself_comes_first() -> None:
    index = index_of(tool("a_picture", "of something"), tool("b_photo", "of something"), tool("c_cat", "of something"))
    assert found(index, "photo") == ["b_photo", "a_picture"]
    assert found(index, "picture") == ["a_picture", "b_photo"]
    assert found(index, "照片")[:2] == ["a_picture", "b_photo"]


def test_nothing_is_removed_for_somebody_who_did_not_say_so() -> None:
    index = index_of(*(tool(f"{verb}_label", "a label") for verb in ("delete", "update", "create", "get")))
    assert found(index, "label")[-1] == "delete_label"
    assert found(index, "that ugly label")[-1] == "delete_label"
    for remove in ("erase the label", "throw the label away", "void a label", "withdraw the label"):
        assert found(index, remove)[0] == "delete_label"
    assert found(index, "amend a label")[0] == "update_label"
    assert found(index, "which label is it")[0] == "get_label"
    assert found(index, "make another label")[0] == "create_label"


def test_words_are_found_as_one_and_one_as_its_parts() -> None:
    index = index_of(
        tool("nameserver", "who answers"), tool("news_paper", "what was written"), tool("watch_list", "see later")
    )
    assert found(index, "the name servers") == ["nameserver"]
    assert found(index, "newspapers")[0] == "news_paper"
    assert found(index, "my watchlists")[0] == "watch_list"


def test_a_mistyped_word_is_found_by_its_consonants() -> None:
    index = index_of(tool("get_forecast", "what the weather will be"), tool("create_invoice", "a bill"))
    assert found(index, "wether forcast")[0] == "get_forecast"
    assert found(index, "an invioce")[0] == "create_invoice"


def test_a_verb_that_fits_anything_says_little_about_the_thing() -> None:
    index = index_of(tool("find_isbn", "Which book it is"), tool("list_tenants", "People who rent"))
    assert found(index, "find tenants")[0] == "list_tenants"


def test_one_word_does_not_crowd_out_the_others() -> None:
    tools = [tool(f"{verb}_exam", "an exam") for verb in ("plan", "grade", "show", "take", "mark", "print")]
    assert "make_flashcard" in found(index_of(*tools, tool("make_flashcard", "a card")), "flashcard exam")


def test_what_stands_in_nested_schemas_and_definitions_is_found() -> None:
    nested: dict[str, object] = {"type": "array", "items": {"properties": {"iban": {"description": "account number"}}}}
    either: dict[str, object] = {"anyOf": [{"type": "null"}, {"enum": ["express", "standard"]}]}
    index = index_of(
        tool("pay", transfers=nested),
        tool("ship", speed=either),
        Tool(name="paint", parameters={"$defs": {"Colour": {"enum": ["magenta"]}}}),
    )
    assert found(index, "iban") == ["pay"]
    assert found(index, "express") == ["ship"]
    assert found(index, "magenta") == ["paint"]


def test_nothing_is_found_where_no_word_fits() -> None:
    assert found(index_of(*SHOP), "zebra") == []
    assert found(index_of(*SHOP), "") == []
    assert found(ToolIndex(), "cart") == []


def test_a_tool_that_went_is_not_found_and_one_that_changed_is_found_anew() -> None:
    index = index_of(*SHOP)
    index.drop("add_to_cart")
    index.drop("add_to_cart")
    index.put(tool("get_weather", "Rain and sunshine"))
    assert "add_to_cart" not in found(index, "put product cart code")
    assert found(index, "celsius") == []
    assert found(index, "sunshine") == ["get_weather"]
    assert len(index) == len(SHOP) - 1


def test_only_what_is_allowed_is_found_and_the_next_best_move_up() -> None:
    index = index_of(*(tool(f"mail_{number}", "send a mail") for number in range(50)))
    even = index.search("mail", 5, lambda one: int(one.name[5:]) % 2 == 0)
    assert len(even) == 5
    assert all(int(one.tool.name[5:]) % 2 == 0 for one in even)


def test_permission_is_asked_only_of_as_many_as_it_takes() -> None:
    index, asked = index_of(*(tool(f"mail_{number}", "send a mail") for number in range(500))), list[str]()
    index.search("mail", 5, lambda one: bool(asked.append(one.name)) or True)
    assert len(asked) <= 5 + EXTRA_CANDIDATES


def test_equally_good_tools_come_by_name_whatever_order_they_came_in() -> None:
    tools = [tool(f"tool_{letter}", "the same words") for letter in "zqxpy"]
    assert found(index_of(*tools), "same words") == found(index_of(*reversed(tools)), "same words")
    assert found(index_of(*tools), "same words") == [f"tool_{letter}" for letter in "pqxyz"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(range(12))), max_size=60), st.randoms())
def test_coming_and_going_leaves_no_trace(changes: Sequence[tuple[bool, int]], chance: random.Random) -> None:
    """After any history the index answers as one that was made anew of the tools there are."""
    pool = [tool(f"{name}_{number}", f"{name} number {number}") for name in NAMES for number in range(2)]
    index, there = ToolIndex(), dict[str, Tool]()
    for comes, number in changes:
        one = pool[number]
        if comes:
            index.put(one)
            there[one.name] = one
        else:
            index.drop(one.name)
            there.pop(one.name, None)
    anew = list(there.values())
    chance.shuffle(anew)
    for query in ("send an email", "cart 1", "weather", "list of products number 0"):
        assert index.search(query, 20) == index_of(*anew).search(query, 20)


def test_a_huge_schema_and_a_huge_query_are_read_to_a_bound() -> None:
    many: dict[str, dict[str, object]] = {f"w{number}": {} for number in range(20_000)}
    index = index_of(tool("huge", "word " * 100, **many), *SHOP)
    assert found(index, "word")[0] == found(index, "w0")[0] == "huge"
    assert found(index, "w19999") == []
    long = " ".join(f"{number}".translate(LETTERS) for number in range(50_000))
    assert set(found(index, f"cart {long} weather")) == {"add_to_cart", "get_weather"}
    assert found(index, f"{long} cart {long}") == []


def test_a_word_of_twenty_thousand_letters_is_looked_for_as_quickly_as_a_page_of_words() -> None:
    index = index_of(*SHOP)

    def spent(query: str) -> float:
        began = process_time()
        index.search(query)
        return process_time() - began

    spent("cart")
    page = " ".join(f"{number}".translate(LETTERS) for number in range(4_000))
    assert spent("ab" * 10_000) < 5 * spent(page) + 0.1


def test_two_words_as_one_begin_like_nothing_else() -> None:
    """What `multiple` says for a multipart upload, `multiple stops` does not say a second time."""
    index = index_of(tool("storage_create_multipart_upload", "Create a multipart upload"), *SHOP)
    alone, paired = index.search("multiple")[0], index.search("multiple stops")[0]
    assert alone.tool.name == "storage_create_multipart_upload"
    assert paired == alone


def test_what_nobody_spoke_of_is_not_counted_copied_or_shared() -> None:
    verbs = ("count", "duplicate", "export", "archive", "share", "search")
    index = index_of(*(tool(f"music_{verb}_concerts", "Concerts: performances on a stage") for verb in verbs))
    assert found(index, "is there a concert near me?")[0] == "music_search_concerts"
    assert found(index, "how many concerts are there?")[0] == "music_count_concerts"
    assert found(index, "share a concert")[0] == "music_share_concerts"


def test_the_service_that_is_spoken_of_speaks_for_its_tools() -> None:
    index = index_of(
        tool("broker_create_alarm", "A message when a price falls"),
        tool("grocer_create_alarm", "A message when a price falls"),
        tool("grocer_list_vegetables", "Vegetables and what they cost"),
    )
    names = found(index, "alarm for the price of vegetables")
    assert names.index("grocer_create_alarm") < names.index("broker_create_alarm")


def test_a_tools_own_verb_speaks_for_it() -> None:
    index = index_of(
        tool("sheets_sort_range", "Put lines in order"),
        *(tool(f"sheets_{verb}_table", "Table: lines and columns") for verb in ("create", "get", "update")),
    )
    assert found(index, "sort a table")[0] == "sheets_sort_range"
