"""A run that reached a limit says so in its caller's language."""

import pytest

from toolyard.core.settings.limits import Limits
from toolyard.core.settings.texts import get_text

LANGUAGES = ("en", "zh", "es", "fr", "de", "pt", "ja", "ar")


def test_the_chinese_sentence_is_the_one_that_users_know() -> None:
    assert get_text("limit", "zh") == "抱歉，处理超时，请简化您的请求或重试。"


def test_eight_languages_have_a_sentence_of_their_own() -> None:
    assert len({get_text("limit", language) for language in LANGUAGES}) == len(LANGUAGES)


@pytest.mark.parametrize("locale", ["zh-CN", "zh_TW", "ZH", "zh-Hans-CN"])
def test_a_region_or_a_script_does_not_change_the_language(locale: str) -> None:
    assert get_text("limit", locale) == get_text("limit", "zh")


@pytest.mark.parametrize("locale", ["", "tlh", "-", "english"])
def test_a_language_that_we_do_not_speak_gets_english(locale: str) -> None:
    assert get_text("limit", locale) == get_text("limit", "en")


def test_the_defaults_are_those_of_the_seeds() -> None:
    limits = Limits()
    assert (limits.turns_per_request, limits.turns_per_conversation, limits.queued_messages) == (50, 200, 16)
