"""How far a run may go, and what the caller is told when it has gone that far."""

from msgspec import Struct
from msgspec.structs import asdict


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Bounds of one run and of its conversation. Zero tokens means no bound."""

    turns_per_request: int = 50
    turns_per_conversation: int = 200
    run_seconds: float = 600.0
    run_tokens: int = 0
    calls_per_turn: int = 64
    parallel_calls: int = 16
    queued_messages: int = 16

    def within(self, other: "Limits") -> "Limits":
        """These, but nowhere more than the others allow."""
        least = {name: min(value, getattr(other, name)) for name, value in asdict(self).items() if name != "run_tokens"}
        tokens = [tokens for tokens in (self.run_tokens, other.run_tokens) if tokens]
        return Limits(**least, run_tokens=min(tokens, default=0))


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many of a yard's tools a model is shown unasked; where there are more, it can ask for the others."""

    tools: int = 40
    schema_bytes: int = 8192


_TOO_LONG = {
    "en": "Sorry, this took too many steps. Please simplify your request or try again.",
    "zh": "抱歉，处理超时，请简化您的请求或重试。",
    "es": "Lo siento, esto requirió demasiados pasos. Simplifique su solicitud o inténtelo de nuevo.",
    "fr": "Désolé, cela a demandé trop d'étapes. Simplifiez votre demande ou réessayez.",
    "de": "Das hat leider zu viele Schritte gebraucht. Bitte vereinfachen Sie die Anfrage oder versuchen Sie es neu.",
    "pt": "Desculpe, isto exigiu passos demais. Simplifique o pedido ou tente novamente.",
    "ja": "申し訳ありません。処理の手順が多すぎました。依頼を簡単にするか、もう一度お試しください。",
    "ar": "عذرًا، تطلّب هذا خطوات كثيرة جدًا. يُرجى تبسيط طلبك أو المحاولة مرة أخرى.",
}


_FAILED = {
    "en": "Sorry, I could not answer because of a technical problem. Please try again later.",
    "zh": "抱歉，由于技术问题暂时无法回答，请稍后重试。",
    "es": "Lo siento, no he podido responder por un problema técnico. Inténtelo de nuevo más tarde.",
    "fr": "Désolé, un problème technique m'empêche de répondre. Veuillez réessayer plus tard.",
    "de": "Wegen eines technischen Problems kann ich gerade nicht antworten. Bitte versuchen Sie es später erneut.",
    "pt": "Desculpe, não consegui responder por causa de um problema técnico. Tente novamente mais tarde.",
    "ja": "申し訳ありません。技術的な問題のため回答できませんでした。しばらくしてからもう一度お試しください。",
    "ar": "عذرًا، لم أتمكن من الرد بسبب مشكلة تقنية. يُرجى المحاولة لاحقًا.",
}


def limit_message(locale: str) -> str:
    """The sentence for a run that reached a limit, in the caller's language, English where we do not speak it."""
    return _in_language(_TOO_LONG, locale)


def failure_message(locale: str) -> str:
    """Return the sentence for a run that failed, in the caller's language or else in English."""
    return _in_language(_FAILED, locale)


def _in_language(texts: dict[str, str], locale: str) -> str:
    language = locale.replace("_", "-").split("-")[0].lower()
    return texts.get(language, texts["en"])
