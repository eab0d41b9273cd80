"""The assistant of a shop without a language model: a script that understands a few sentences. For trying things out.

It calls the page's tools as a model would: it searches, reads what came back, and acts on it.
"""

import re
from collections.abc import AsyncGenerator, Sequence

import msgspec
from msgspec import Struct

from toolyard.core.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import Call, Item, Result, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.models.scripted import Scripted, Turn, call, say, together

HELP = (
    "I am a script, not a language model, and know a few sentences: “Add milk and bread to my cart”, “Show me cheese”, "
    "“Show me my cart”, “Remove the bread”, “Take me to checkout”. "
    "Give the shop a real model with --model openai:gpt-4o-mini (and OPENAI_API_KEY)."
)
PLACES = {"home": "open_home", "cart": "open_cart", "basket": "open_cart", "checkout": "open_checkout",
          "orders": "open_orders", "account": "open_account"}  # fmt: skip


class _Product(Struct):
    code: str
    name: str
    stock: int = 1


class _Found(Struct):
    products: list[_Product] = []


class _Line(Struct):
    code: str
    name: str


class _Cart(Struct):
    lines: list[_Line] = []


class ShopModel:
    """Answers from the conversation alone, so that one serves everybody."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        return Scripted(script).stream(request)

    async def close(self) -> None:
        pass


def script(request: ModelRequest) -> Turn:
    """What to do next, given what was said last and what its calls came to."""
    asked, since = _since_last_message(request.history)
    text = asked.text.strip(" .!?").lower()
    called = [item for item in since if isinstance(item, Call)]
    results = {item.call_id: item for item in since if isinstance(item, Result)}
    failed = next((result for result in results.values() if result.outcome != "ok"), None)
    if failed is not None:
        return _spoken(f"That did not work: {failed.error.error if failed.error else failed.content}")
    if found := re.search(
        r"\b(?:add|put|buy|get)\b (?:me )?(.+?)(?: (?:to|in|into) (?:my |the )?(?:cart|basket))?$", text
    ):
        return _add(_things(found[1]), called, results)
    if found := re.search(
        r"\b(?:remove|take out|delete)\b (.+?)(?: (?:from|out of) (?:my |the )?(?:cart|basket))?$", text
    ):
        return _remove(_things(found[1]), called, results)
    if re.search(r"\b(?:show|what|see)\b.*\b(?:cart|basket)\b", text):
        return _spoken("Here is your cart.") if called else call("show_cart")
    if found := re.search(r"\b(?:take me|go|open|bring me)\b.*\b(home|cart|basket|checkout|orders|account)\b", text):
        return _spoken(f"Here is the {found[1]} page.") if called else call(PLACES[found[1]])
    if found := re.search(r"\b(?:show|find|search|look)\b (?:me |for )*(.+)$", text):
        return _show(_things(found[1]), called, results)
    return _spoken(HELP)


def _add(things: Sequence[str], called: Sequence[Call], results: dict[str, Result]) -> Turn:
    names = [one.tool for one in called]
    if not names:
        return together(*(call("search_products", query=thing) for thing in things))
    if "add_to_cart" not in names:
        best = [found[0] for found in _products(called, results) if found]
        if not best:
            return _spoken(f"I could not find {_listed(things)}.")
        return together(*(call("add_to_cart", code=one.code, quantity=1) for one in best))
    if "show_cart" not in names:
        return together(call("show_cart"), call("open_cart"))
    added = [found[0].name.partition(",")[0] for found in _products(called, results) if found]
    return _spoken(f"I've added {_listed(added)} to your cart!")


def _remove(things: Sequence[str], called: Sequence[Call], results: dict[str, Result]) -> Turn:
    names = [one.tool for one in called]
    if not names:
        return call("get_cart")
    if "remove_from_cart" in names:
        return _spoken("It is out of your cart.") if "show_cart" in names else call("show_cart")
    cart = msgspec.json.decode(results[called[0].id].content, type=_Cart)
    words = [word.removeprefix("the ") for word in things]
    gone = [line for line in cart.lines if any(word.rstrip("s") in line.name.lower() for word in words)]
    if not gone:
        return _spoken(f"There is no {_listed(words)} in your cart.")
    return together(*(call("remove_from_cart", code=line.code) for line in gone))


def _show(things: Sequence[str], called: Sequence[Call], results: dict[str, Result]) -> Turn:
    if not called:
        return call("search_products", query=" ".join(things))
    codes = [one.code for found in _products(called, results) for one in found[:4]]
    if not codes:
        return _spoken(f"I could not find {_listed(things)}.")
    return (
        _spoken("This is what we have.") if called[-1].tool == "show_products" else call("show_products", codes=codes)
    )


def _products(called: Sequence[Call], results: dict[str, Result]) -> list[list[_Product]]:
    """What each search found, best first; what is sold out comes last."""
    searches = [results[one.id].content for one in called if one.tool == "search_products"]
    found = [msgspec.json.decode(text, type=_Found).products for text in searches]
    return [sorted(products, key=lambda one: one.stock == 0) for products in found]


def _since_last_message(history: Sequence[Item]) -> tuple[UserMessage, Sequence[Item]]:
    at = max(index for index, item in enumerate(history) if isinstance(item, UserMessage))
    asked = history[at]
    assert isinstance(asked, UserMessage)
    return asked, history[at + 1 :]


def _things(text: str) -> list[str]:
    parts = re.split(r",| and | & ", text)
    return [re.sub(r"^(?:some|a|an|the|any) ", "", part.strip()) for part in parts if part.strip()]


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _spoken(text: str) -> Turn:
    """Word by word, as a model would."""
    return say(*re.findall(r"\S+\s*", text))
