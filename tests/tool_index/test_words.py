"""Words as they are found by: what means the same is the same, what does not is not."""

import pytest

from toolyard.tool_index import extract_words


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("creates creating created creation", "create create create create"),
        ("cities boxes batches buses", "city box batch bus"),
        ("stopping planned shipped", "stop plan ship"),
        ("translations calculated generating", "translate calculate generate"),
        ("notifications verifies verified", "notify verify verify"),
        ("favourite organised theatre catalogue", "favorite organized theater catalog"),
        ("cancelled travelling installing", "canceled traveling instal"),
        ("making moved cutting", "make move cut"),
        ("MILK Milk", "milk milk"),
        ("ｍｉｌｋ", "milk"),
    ],
)
def test_forms_of_a_word_are_one_word(first: str, other: str) -> None:
    assert extract_words(first) == extract_words(other)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("bus", "but"),
        ("note", "not"),
        ("code", "cod"),
        ("news", "new"),
        ("address", "add"),
        ("string", "str"),
        ("sing", "s"),
        ("need", "ne"),
    ],
)
def test_different_words_stay_different(first: str, other: str) -> None:
    assert extract_words(first) != extract_words(other)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add_to_cart", {"add", "cart"}),
        ("getHTTPStatus", {"get", "http", "status"}),
        ("github.create-issue", {"github", "creat", "issu"}),
        ("listS3Objects", {"list", "s3", "object"}),
        ("timeZone", {"time", "zone", "timezon"}),
        ("convert2pdf", {"convert", "2", "pdf"}),
    ],
)
def test_a_name_is_split_at_case_underscores_dots_and_digits(name: str, expected: set[str]) -> None:
    assert expected <= set(extract_words(name))


def test_chinese_is_found_by_its_characters_and_their_pairs() -> None:
    assert extract_words("查找面粉") == ["查", "找", "面", "粉", "查找", "找面", "面粉"]


def test_chinese_and_english_stand_side_by_side() -> None:
    assert {"面粉", "3", "kg"} <= set(extract_words("面粉3kg"))


def test_words_that_say_nothing_are_left_out() -> None:
    assert extract_words("Could you please do that for me?") == []
    assert extract_words("请帮我") == []


def test_any_text_has_words_and_none_breaks_it() -> None:
    for text in ("", "   ", "…—!?", "\x00\ud800", "É" * 10_000, "_" * 1000, "a.b.c" * 1000):
        extract_words(text)
