"""The server's own messages to users, by language: built-in ones, and an operator's."""

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from toolyard.core.errors import Invalid
from toolyard.core.settings.types import LANGUAGE, Name

TextName = Literal[
    "limit",
    "max_tool_turns",
    "max_session_turns",
    "budget",
    "failed",
    "waiting_approval",
    "waiting_others",
    "waiting_answer",
    "waiting_client",
    "waiting_budget",
    "approver_role",
    "approver_user",
    "approver_other",
    "approver_list",
]
LIMIT_TEXTS = ("max_tool_turns", "max_session_turns")
"""Messages in whose place `limit` is shown if they are empty."""
ENGLISH = "en"


class Texts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operator's messages in one language; empty ones are replaced by the built-in ones."""

    limit: Name = ""
    """Shown when a run reached any limit."""
    max_tool_turns: Name = ""
    """Shown when a request took too many turns with tools; `limit` if this is empty."""
    max_session_turns: Name = ""
    """Shown when a conversation took too many turns with tools; `limit` if this is empty."""
    budget: Name = ""
    """Shown when a budget has no room for the next request to the model; `{budget}` stands for its name."""
    failed: Name = ""
    """Shown when the model gave no answer."""
    waiting_approval: Name = ""
    """Shown before a link when a call waits for the user's approval; `{tool}` stands for the tool's name."""
    waiting_others: Name = ""
    """Shown before a link when a call waits for the approval of others; `{approvers}` says whose."""
    waiting_answer: Name = ""
    """Shown before a link when a tool asks a question."""
    waiting_client: Name = ""
    """Shown when a call waits for the application that runs its tool, to a user of another application."""
    waiting_budget: Name = ""
    """Shown when a run waits until the amount of a budget is raised; `{budget}` stands for its name."""
    approver_role: Name = ""
    """One of the `{approvers}`: the role `{name}`."""
    approver_user: Name = ""
    """One of the `{approvers}`: the user `{name}`."""
    approver_other: Name = ""
    """The `{approvers}` where any other user with the role approver may decide."""
    approver_list: Name = ""
    """Several `{approvers}`: `{first}` are all but the last one, with commas."""


CustomTexts = Mapping[str, Texts]
"""By language."""
NO_TEXTS: CustomTexts = {}
BUILT_IN_TEXTS: CustomTexts = {
    "en": Texts(
        limit="Sorry, this took too many steps. Please simplify your request or try again.",
        budget="The budget “{budget}” has no room for this. Please try again later, or ask an administrator.",
        failed="Sorry, I could not answer because of a technical problem. Please try again later.",
        waiting_approval="`{tool}` waits for an approval. Approve or deny it here, then go on:",
        waiting_others="`{tool}` waits for the approval of {approvers}. Go on when it was decided:",
        waiting_answer="`{tool}` asks a question. Answer it here, then go on:",
        waiting_client="`{tool}` waits for the application that runs it.",
        waiting_budget="The budget “{budget}” is used up. This goes on by itself when an administrator raises it.",
        approver_role="the role {name}",
        approver_user="the user {name}",
        approver_other="another user with the role approver",
        approver_list="{first} or {last}",
    ),
    "zh": Texts(
        limit="抱歉，处理超时，请简化您的请求或重试。",
        budget="预算“{budget}”已不足。请稍后重试，或联系管理员。",
        failed="抱歉，由于技术问题暂时无法回答，请稍后重试。",
        waiting_approval="`{tool}` 正在等待批准。请在此批准或拒绝，然后继续：",
        waiting_others="`{tool}` 正在等待{approvers}批准。作出决定后请继续：",
        waiting_answer="`{tool}` 提出了一个问题。请在此回答，然后继续：",
        waiting_client="`{tool}` 正在等待运行它的应用。",
        waiting_budget="预算“{budget}”已用完。管理员提高预算后会自动继续。",
        approver_role="角色 {name} ",
        approver_user="用户 {name} ",
        approver_other="另一位具有 approver 角色的用户",
        approver_list="{first}或{last}",
    ),
    "es": Texts(
        limit="Lo siento, esto requirió demasiados pasos. Simplifique su solicitud o inténtelo de nuevo.",
        budget="El presupuesto «{budget}» no alcanza para esto. Inténtelo más tarde o consulte a un administrador.",
        failed="Lo siento, no he podido responder por un problema técnico. Inténtelo de nuevo más tarde.",
        waiting_approval="`{tool}` espera una aprobación. Apruébela o recházela aquí y continúe después:",
        waiting_others="`{tool}` espera la aprobación por {approvers}. Continúe cuando se haya decidido:",
        waiting_answer="`{tool}` hace una pregunta. Respóndala aquí y continúe después:",
        waiting_client="`{tool}` espera a la aplicación que lo ejecuta.",
        waiting_budget="El presupuesto «{budget}» está agotado. Esto continúa solo cuando un administrador lo aumente.",
        approver_role="el rol {name}",
        approver_user="el usuario {name}",
        approver_other="otro usuario con el rol approver",
        approver_list="{first} o {last}",
    ),
    "fr": Texts(
        limit="Désolé, cela a demandé trop d'étapes. Simplifiez votre demande ou réessayez.",
        budget="Le budget « {budget} » ne suffit pas pour cela. "
        "Réessayez plus tard ou adressez-vous à un administrateur.",
        failed="Désolé, un problème technique m'empêche de répondre. Veuillez réessayer plus tard.",
        waiting_approval="`{tool}` attend une approbation. Approuvez ou refusez ici, puis continuez :",
        waiting_others="`{tool}` attend une approbation par {approvers}. Continuez une fois la décision prise :",
        waiting_answer="`{tool}` pose une question. Répondez ici, puis continuez :",
        waiting_client="`{tool}` attend l'application qui l'exécute.",
        waiting_budget="Le budget « {budget} » est épuisé. "
        "La suite reprend d'elle-même quand un administrateur l'augmente.",
        approver_role="le rôle {name}",
        approver_user="l'utilisateur {name}",
        approver_other="un autre utilisateur ayant le rôle approver",
        approver_list="{first} ou {last}",
    ),
    "de": Texts(
        limit="Das hat leider zu viele Schritte gebraucht. "
        "Bitte vereinfachen Sie die Anfrage oder versuchen Sie es neu.",
        budget="Das Budget „{budget}“ reicht dafür nicht mehr. "
        "Bitte versuchen Sie es später oder fragen Sie die Administration.",
        failed="Wegen eines technischen Problems kann ich gerade nicht antworten. "
        "Bitte versuchen Sie es später erneut.",
        waiting_approval="`{tool}` wartet auf eine Freigabe. Geben Sie es hier frei oder lehnen Sie es ab:",
        waiting_others="`{tool}` wartet auf die Freigabe durch {approvers}. Nach der Entscheidung geht es weiter:",
        waiting_answer="`{tool}` stellt eine Frage. Beantworten Sie sie hier, dann geht es weiter:",
        waiting_client="`{tool}` wartet auf die Anwendung, die es ausführt.",
        waiting_budget="Das Budget „{budget}“ ist aufgebraucht. "
        "Es geht von selbst weiter, sobald es ein Administrator erhöht.",
        approver_role="die Rolle {name}",
        approver_user="den Benutzer {name}",
        approver_other="einen anderen Benutzer mit der Rolle approver",
        approver_list="{first} oder {last}",
    ),
    "pt": Texts(
        limit="Desculpe, isto exigiu passos demais. Simplifique o pedido ou tente novamente.",
        budget="O orçamento «{budget}» não chega para isto. Tente mais tarde ou fale com um administrador.",
        failed="Desculpe, não consegui responder por causa de um problema técnico. Tente novamente mais tarde.",
        waiting_approval="`{tool}` aguarda uma aprovação. Aprove ou recuse aqui e depois continue:",
        waiting_others="`{tool}` aguarda a aprovação por parte de: {approvers}. Continue quando houver uma decisão:",
        waiting_answer="`{tool}` faz uma pergunta. Responda aqui e depois continue:",
        waiting_client="`{tool}` aguarda o aplicativo que o executa.",
        waiting_budget="O orçamento «{budget}» está esgotado. "
        "Isto continua sozinho quando um administrador o aumentar.",
        approver_role="função {name}",
        approver_user="usuário {name}",
        approver_other="outro usuário com a função approver",
        approver_list="{first} ou {last}",
    ),
    "ja": Texts(
        limit="申し訳ありません。処理の手順が多すぎました。依頼を簡単にするか、もう一度お試しください。",
        budget="予算「{budget}」が不足しています。しばらくしてからもう一度お試しいただくか、管理者にお問い合わせください。",
        failed="申し訳ありません。技術的な問題のため回答できませんでした。しばらくしてからもう一度お試しください。",
        waiting_approval="`{tool}` は承認を待っています。こちらで承認または拒否してから続けてください：",
        waiting_others="`{tool}` は{approvers}の承認を待っています。決定後に続けてください：",
        waiting_answer="`{tool}` から質問があります。こちらで回答してから続けてください：",
        waiting_client="`{tool}` は、それを実行するアプリケーションを待っています。",
        waiting_budget="予算「{budget}」を使い切りました。管理者が増額すると自動的に続行されます。",
        approver_role="ロール {name} ",
        approver_user="ユーザー {name} ",
        approver_other="approver ロールを持つ別のユーザー",
        approver_list="{first}または{last}",
    ),
    "ar": Texts(
        limit="عذرًا، تطلّب هذا خطوات كثيرة جدًا. يُرجى تبسيط طلبك أو المحاولة مرة أخرى.",
        budget="لا تكفي الميزانية «{budget}» لهذا الطلب. يُرجى المحاولة لاحقًا أو سؤال المسؤول.",
        failed="عذرًا، لم أتمكن من الرد بسبب مشكلة تقنية. يُرجى المحاولة لاحقًا.",
        waiting_approval="ينتظر `{tool}` الموافقة. وافق عليه أو ارفضه هنا ثم تابع:",
        waiting_others="ينتظر `{tool}` موافقة {approvers}. تابع بعد اتخاذ القرار:",
        waiting_answer="يطرح `{tool}` سؤالًا. أجب عنه هنا ثم تابع:",
        waiting_client="ينتظر `{tool}` التطبيق الذي يشغّله.",
        waiting_budget="نفدت الميزانية «{budget}». يُستأنف هذا تلقائيًا عندما يرفعها المسؤول.",
        approver_role="الدور {name}",
        approver_user="المستخدم {name}",
        approver_other="مستخدم آخر لديه الدور approver",
        approver_list="{first} أو {last}",
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
        if text := getattr(texts, name) or (texts.limit if name in LIMIT_TEXTS else ""):
            return text
    raise AssertionError(f"English has no text {name!r}")


def fill_text(text: str, **values: str) -> str:
    """Return a message with a value in place of each `{name}`. Other braces stay: an operator may have written them."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


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
