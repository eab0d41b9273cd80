"""The server's own messages to users, by language: built-in ones, and an operator's."""

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from toolyard.core.errors import Invalid
from toolyard.core.setting_types import LANGUAGE, Name

TextName = Literal["limit", "max_tool_turns", "max_session_turns", "failed"]
ENGLISH = "en"


class Texts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operator's messages in one language; empty ones are replaced by the built-in ones."""

    limit: Name = ""
    """Shown when a run reached any limit."""
    max_tool_turns: Name = ""
    """Shown when a request took too many turns with tools; `limit` if this is empty."""
    max_session_turns: Name = ""
    """Shown when a conversation took too many turns with tools; `limit` if this is empty."""
    failed: Name = ""
    """Shown when the model gave no answer."""


CustomTexts = Mapping[str, Texts]
"""By language."""
NO_TEXTS: CustomTexts = {}
BUILT_IN_TEXTS: CustomTexts = {
    "en": Texts(
        limit="Sorry, this took too many steps. Please simplify your request or try again.",
        failed="Sorry, I could not answer because of a technical problem. Please try again later.",
    ),
    "zh": Texts(
        limit="抱歉，处理超时，请简化您的请求或重试。",
        failed="抱歉，由于技术问题暂时无法回答，请稍后重试。",
    ),
    "es": Texts(
        limit="Lo siento, esto requirió demasiados pasos. Simplifique su solicitud o inténtelo de nuevo.",
        failed="Lo siento, no he podido responder por un problema técnico. Inténtelo de nuevo más tarde.",
    ),
    "fr": Texts(
        limit="Désolé, cela a demandé trop d'étapes. Simplifiez votre demande ou réessayez.",
        failed="Désolé, un problème technique m'empêche de répondre. Veuillez réessayer plus tard.",
    ),
    "de": Texts(
        limit="Das hat leider zu viele Schritte gebraucht. "
        "Bitte vereinfachen Sie die Anfrage oder versuchen Sie es neu.",
        failed="Wegen eines technischen Problems kann ich gerade nicht antworten. "
        "Bitte versuchen Sie es später erneut.",
    ),
    "pt": Texts(
        limit="Desculpe, isto exigiu passos demais. Simplifique o pedido ou tente novamente.",
        failed="Desculpe, não consegui responder por causa de um problema técnico. Tente novamente mais tarde.",
    ),
    "ja": Texts(
        limit="申し訳ありません。処理の手順が多すぎました。依頼を簡単にするか、もう一度お試しください。",
        failed="申し訳ありません。技術的な問題のため回答できませんでした。しばらくしてからもう一度お試しください。",
    ),
    "ar": Texts(
        limit="عذرًا، تطلّب هذا خطوات كثيرة جدًا. يُرجى تبسيط طلبك أو المحاولة مرة أخرى.",
        failed="عذرًا، لم أتمكن من الرد بسبب مشكلة تقنية. يُرجى المحاولة لاحقًا.",
    ),
}


def get_text(name: TextName, language: str, custom: CustomTexts = NO_TEXTS) -> str:
    """Return a message in a language, or else in English. An operator's message comes before the built-in one."""
    tags = _list_tags(language)
    for texts in (
        *_find_texts(custom, tags),
        *_find_texts(BUILT_IN_TEXTS, tags),
        *_find_texts(custom, [ENGLISH]),
        BUILT_IN_TEXTS[ENGLISH],
    ):
        if text := getattr(texts, name) or (texts.limit if name != "failed" else ""):
            return text
    raise AssertionError(f"English has no text {name!r}")


def has_texts(language: str, custom: CustomTexts = NO_TEXTS) -> bool:
    """Return whether there is any message in this language."""
    tags = _list_tags(language)
    return bool(_find_texts(custom, tags) or _find_texts(BUILT_IN_TEXTS, tags))


def check_language(language: str) -> None:
    """Raise Invalid for a text that is not a language tag; an empty text is accepted."""
    if language and not re.match(LANGUAGE, language):
        why = f"{language[:40]!r} is not a language: write a tag such as en, zh or pt-BR"
        raise Invalid(f"language: {why}", {"fields": [{"key": "language", "message": why}]})


def _list_tags(language: str) -> list[str]:
    """Return the normalised tag, then its language without a region."""
    tag = language.replace("_", "-").lower()
    return list(dict.fromkeys((tag, tag.partition("-")[0])))


def _find_texts(texts: CustomTexts, tags: list[str]) -> list[Texts]:
    by_tag = {name.replace("_", "-").lower(): entry for name, entry in texts.items()}
    return [by_tag[tag] for tag in tags if tag in by_tag]
