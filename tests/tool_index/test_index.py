"""The index: the right tool first, whatever came and went before, and only tools that may be used."""

import random
from collections.abc import Sequence
from time import process_time

from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.core.tools.definition import Tool
from toolyard.tool_index import ToolIndex
from toolyard.tool_index.index import EXTRA_CANDIDATES

LETTERS = str.maketrans("0123456789", "qwxzvkjhgb")
NAMES = ["add_to_cart", "remove_from_cart", "search_products", "get_weather", "send_email", "list_emails"]


def make_tool(name: str, description: str = "", **parameters: dict[str, object]) -> Tool:
    return Tool(name=name, description=description, parameters={"type": "object", "properties": parameters})


def build_index(*tools: Tool) -> ToolIndex:
    index = ToolIndex()
    for tool in tools:
        index.put(tool)
    return index


def search_names(index: ToolIndex, query: str, limit: int = 5) -> list[str]:
    return [hit.tool.name for hit in index.search(query, limit)]


SHOP = (
    make_tool("search_products", "Find products in the shop by name"),
    make_tool(
        "add_to_cart", "Put a product into the cart", code={"type": "string", "description": "the product's code"}
    ),
    make_tool("get_weather", "The weather of a city", unit={"enum": ["celsius", "fahrenheit"]}),
    Tool(name="search_materials", description="搜索原料信息", examples=("帮我查找面粉原料", "有没有白砂糖")),
    Tool(name="format_report", description="把原料的库存整理成报表", examples=("生成面粉库存报表",)),
)


def test_a_tool_is_found_by_what_it_says_anywhere() -> None:
    index = build_index(*SHOP)
    assert search_names(index, "put it in the cart")[0] == "add_to_cart"
    assert search_names(index, "is it cold in celsius")[0] == "get_weather"
    assert search_names(index, "which code was it")[0] == "add_to_cart"
    assert search_names(index, "finding shops")[0] == "search_products"
    assert search_names(index, "帮我找一下面粉")[0] == "search_materials"
    assert search_names(index, "做一个库存的报表")[0] == "format_report"


def test_a_word_that_means_the_same_is_found_but_the_word_itself_comes_first() -> None:
    index = build_index(
        make_tool("a_picture", "of something"), make_tool("b_photo", "of something"), make_tool("c_cat", "of something")
    )
    assert search_names(index, "photo") == ["b_photo", "a_picture"]
    assert search_names(index, "picture") == ["a_picture", "b_photo"]
    assert search_names(index, "照片")[:2] == ["a_picture", "b_photo"]


def test_nothing_is_removed_for_somebody_who_did_not_say_so() -> None:
    index = build_index(*(make_tool(f"{verb}_label", "a label") for verb in ("delete", "update", "create", "get")))
    assert search_names(index, "label")[-1] == "delete_label"
    assert search_names(index, "that ugly label")[-1] == "delete_label"
    for remove in ("erase the label", "throw the label away", "void a label", "withdraw the label"):
        assert search_names(index, remove)[0] == "delete_label"
    assert search_names(index, "amend a label")[0] == "update_label"
    assert search_names(index, "which label is it")[0] == "get_label"
    assert search_names(index, "make another label")[0] == "create_label"


def test_words_are_found_as_one_and_one_as_its_parts() -> None:
    index = build_index(
        make_tool("nameserver", "who answers"),
        make_tool("news_paper", "what was written"),
        make_tool("watch_list", "see later"),
    )
    assert search_names(index, "the name servers") == ["nameserver"]
    assert search_names(index, "newspapers")[0] == "news_paper"
    assert search_names(index, "my watchlists")[0] == "watch_list"


def test_a_mistyped_word_is_found_by_its_consonants() -> None:
    index = build_index(make_tool("get_forecast", "what the weather will be"), make_tool("create_invoice", "a bill"))
    assert search_names(index, "wether forcast")[0] == "get_forecast"
    assert search_names(index, "an invioce")[0] == "create_invoice"


def test_a_verb_that_fits_anything_says_little_about_the_thing() -> None:
    index = build_index(make_tool("find_isbn", "Which book it is"), make_tool("list_tenants", "People who rent"))
    assert search_names(index, "find tenants")[0] == "list_tenants"


def test_one_word_does_not_crowd_out_the_others() -> None:
    tools = [make_tool(f"{verb}_exam", "an exam") for verb in ("plan", "grade", "show", "take", "mark", "print")]
    assert "make_flashcard" in search_names(
        build_index(*tools, make_tool("make_flashcard", "a card")), "flashcard exam"
    )


def test_what_stands_in_nested_schemas_and_definitions_is_found() -> None:
    nested: dict[str, object] = {"type": "array", "items": {"properties": {"iban": {"description": "account number"}}}}
    either: dict[str, object] = {"anyOf": [{"type": "null"}, {"enum": ["express", "standard"]}]}
    index = build_index(
        make_tool("pay", transfers=nested),
        make_tool("ship", speed=either),
        Tool(name="paint", parameters={"$defs": {"Colour": {"enum": ["magenta"]}}}),
    )
    assert search_names(index, "iban") == ["pay"]
    assert search_names(index, "express") == ["ship"]
    assert search_names(index, "magenta") == ["paint"]


def test_nothing_is_found_where_no_word_fits() -> None:
    assert search_names(build_index(*SHOP), "zebra") == []
    assert search_names(build_index(*SHOP), "") == []
    assert search_names(ToolIndex(), "cart") == []


def test_a_tool_that_went_is_not_found_and_one_that_changed_is_found_anew() -> None:
    index = build_index(*SHOP)
    index.drop("add_to_cart")
    index.drop("add_to_cart")
    index.put(make_tool("get_weather", "Rain and sunshine"))
    assert "add_to_cart" not in search_names(index, "put product cart code")
    assert search_names(index, "celsius") == []
    assert search_names(index, "sunshine") == ["get_weather"]
    assert len(index) == len(SHOP) - 1


def test_only_what_is_allowed_is_found_and_the_next_best_move_up() -> None:
    index = build_index(*(make_tool(f"mail_{number}", "send a mail") for number in range(50)))
    even = index.search("mail", 5, lambda tool: int(tool.name[5:]) % 2 == 0)
    assert len(even) == 5
    assert all(int(hit.tool.name[5:]) % 2 == 0 for hit in even)


def test_permission_is_asked_only_of_as_many_as_it_takes() -> None:
    index, asked_names = (
        build_index(*(make_tool(f"mail_{number}", "send a mail") for number in range(500))),
        list[str](),
    )
    index.search("mail", 5, lambda tool: bool(asked_names.append(tool.name)) or True)
    assert len(asked_names) <= 5 + EXTRA_CANDIDATES


def test_equally_good_tools_come_by_name_whatever_order_they_came_in() -> None:
    tools = [make_tool(f"tool_{letter}", "the same words") for letter in "zqxpy"]
    assert search_names(build_index(*tools), "same words") == search_names(build_index(*reversed(tools)), "same words")
    assert search_names(build_index(*tools), "same words") == [f"tool_{letter}" for letter in "pqxyz"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(range(12))), max_size=60), st.randoms())
def test_coming_and_going_leaves_no_trace(changes: Sequence[tuple[bool, int]], chance: random.Random) -> None:
    """After any history the index answers as one that was made anew of the tools there are."""
    pool = [make_tool(f"{name}_{number}", f"{name} number {number}") for name in NAMES for number in range(2)]
    index, indexed_tools = ToolIndex(), dict[str, Tool]()
    for comes, number in changes:
        pooled_tool = pool[number]
        if comes:
            index.put(pooled_tool)
            indexed_tools[pooled_tool.name] = pooled_tool
        else:
            index.drop(pooled_tool.name)
            indexed_tools.pop(pooled_tool.name, None)
    anew = list(indexed_tools.values())
    chance.shuffle(anew)
    for query in ("send an email", "cart 1", "weather", "list of products number 0"):
        assert index.search(query, 20) == build_index(*anew).search(query, 20)


def test_a_huge_schema_and_a_huge_query_are_read_to_a_bound() -> None:
    many: dict[str, dict[str, object]] = {f"w{number}": {} for number in range(20_000)}
    index = build_index(make_tool("huge", "word " * 100, **many), *SHOP)
    assert search_names(index, "word")[0] == search_names(index, "w0")[0] == "huge"
    assert search_names(index, "w19999") == []
    long = " ".join(f"{number}".translate(LETTERS) for number in range(50_000))
    assert set(search_names(index, f"cart {long} weather")) == {"add_to_cart", "get_weather"}
    assert search_names(index, f"{long} cart {long}") == []


def test_a_word_of_twenty_thousand_letters_is_looked_for_as_quickly_as_a_page_of_words() -> None:
    index = build_index(*SHOP)

    def measure_cpu_s(query: str) -> float:
        began = process_time()
        index.search(query)
        return process_time() - began

    measure_cpu_s("cart")
    page = " ".join(f"{number}".translate(LETTERS) for number in range(4_000))
    assert measure_cpu_s("ab" * 10_000) < 5 * measure_cpu_s(page) + 0.1


def test_two_words_as_one_begin_like_nothing_else() -> None:
    """What `multiple` says for a multipart upload, `multiple stops` does not say a second time."""
    index = build_index(make_tool("storage_create_multipart_upload", "Create a multipart upload"), *SHOP)
    alone, paired = index.search("multiple")[0], index.search("multiple stops")[0]
    assert alone.tool.name == "storage_create_multipart_upload"
    assert paired == alone


def test_what_nobody_spoke_of_is_not_counted_copied_or_shared() -> None:
    verbs = ("count", "duplicate", "export", "archive", "share", "search")
    index = build_index(*(make_tool(f"music_{verb}_concerts", "Concerts: performances on a stage") for verb in verbs))
    assert search_names(index, "is there a concert near me?")[0] == "music_search_concerts"
    assert search_names(index, "how many concerts are there?")[0] == "music_count_concerts"
    assert search_names(index, "share a concert")[0] == "music_share_concerts"


def test_the_service_that_is_spoken_of_speaks_for_its_tools() -> None:
    index = build_index(
        make_tool("broker_create_alarm", "A message when a price falls"),
        make_tool("grocer_create_alarm", "A message when a price falls"),
        make_tool("grocer_list_vegetables", "Vegetables and what they cost"),
    )
    names = search_names(index, "alarm for the price of vegetables")
    assert names.index("grocer_create_alarm") < names.index("broker_create_alarm")


def test_a_tools_own_verb_speaks_for_it() -> None:
    index = build_index(
        make_tool("sheets_sort_range", "Put lines in order"),
        *(make_tool(f"sheets_{verb}_table", "Table: lines and columns") for verb in ("create", "get", "update")),
    )
    assert search_names(index, "sort a table")[0] == "sheets_sort_range"
