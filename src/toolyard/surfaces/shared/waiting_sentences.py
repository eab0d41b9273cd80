"""Puts what a run did in place of the sentence that a client was told while the run waited, in a history it sends back.

A client that keeps its history itself has the sentence in it. The link in the sentence leads to the run.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import CallJudged
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import NotFound
from toolyard.core.items import Call, Item, ModelText, Result, SystemText, UserMessage
from toolyard.engine.service import Service
from toolyard.surfaces.shared.call_ids import CALL_ID, parse_call_id

MAX_LINKS = 32
"""How many of the last links of a history are followed: each reads a log."""
MAX_SENTENCE_CHARS = 20_000
_DIGITS = 24
"""The digits of a call's id, with which the id of its item ends."""
LINK_MARK = "?call="
LINKED_CALL = re.compile(rf"[?]call=({CALL_ID})")


def find_links(item: Item) -> Sequence[str]:
    """Return the ids of the calls that a text of the model ends with links to."""
    # The sentence is the end of an answer, which may be as long as a request.
    return LINKED_CALL.findall(item.text[-MAX_SENTENCE_CHARS:]) if isinstance(item, ModelText) else ()


async def remove_sentences(service: Service, items: Sequence[Item], caller: Caller) -> tuple[Sequence[Item], list[str]]:
    """Return the history as `replace_sentences` does, without the sentences that stay: the model sees none of them."""
    # A list, since a long history is looked through: a generator or a function would be called for each item.
    if not any([type(item) is ModelText and LINK_MARK in item.text for item in items]):
        return items, []
    items, sources = await replace_sentences(service, items, caller)
    remaining = [_remove_sentence(item) for item in items]
    return [item for item in remaining if not isinstance(item, ModelText) or item.text], sources


def _remove_sentence(item: Item) -> Item:
    """Return a text of the model without the lines that tell the client to wait, other items as they are."""
    if not isinstance(item, ModelText) or not find_links(item):
        return item
    return replace(item, text=_remove_linked_lines(item.text))


def _remove_linked_lines(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not LINKED_CALL.search(line)).strip()


async def replace_sentences(
    service: Service, items: Sequence[Item], caller: Caller
) -> tuple[Sequence[Item], list[str]]:
    """Return the history with what was done in place of each sentence, and the conversations of that.

    A sentence stays where its run has not ended, or is not the caller's; a bare link is left out.
    """
    sentences = _find_sentences(items)
    links = dict.fromkeys(link for of_item in sentences.values() for link in of_item)
    sources: list[str] = []
    for link in list(links)[-MAX_LINKS:]:
        view = await _find_ended_run(service, *parse_call_id(link), caller)
        # A sentence may link to several calls of one run.
        if view is not None and (replaced := _select_sentences(items, sentences, view)):
            items = _replace_sentences(items, replaced, view)
            sources.append(view.conversation)
    # A bare link says nothing to the model.
    return [item for item in items if not (isinstance(item, ModelText) and LINKED_CALL.fullmatch(item.text))], sources


def _find_sentences(items: Sequence[Item]) -> dict[str, Sequence[str]]:
    """Return the links of each item that tells the client to wait, by the item's id."""
    return {item.id: links for item in items if (links := find_links(item))}


def _select_sentences(items: Sequence[Item], sentences: Mapping[str, Sequence[str]], view: RunView) -> set[str]:
    """Return the ids of the items that tell the client to wait for a call of the run."""
    return {
        item.id for item in items if any(parse_call_id(link)[1] in view.calls for link in sentences.get(item.id, ()))
    }


async def _find_ended_run(service: Service, conversation: str, call_id: str, caller: Caller) -> RunView | None:
    try:
        await service.conversations.require(conversation, caller)
    except NotFound:
        return None
    entries = await service.conversations.read_entries(conversation)
    judged = (entry for entry in entries if isinstance(entry.event, CallJudged) and entry.event.call_id == call_id)
    run = next((entry.run for entry in judged), "")
    view = RunView(run_id=run, conversation=conversation)
    for entry in entries if run else ():
        view.apply(entry)
    return view if view.status == "ended" else None


def _replace_sentences(items: Sequence[Item], sentences: set[str], view: RunView) -> list[Item]:
    """Return the history with what the run did in place of what the client was told while it waited.

    That is the sentence, as often as the client got it, and what clients of `/v1/responses` send back beside it: the
    calls and texts of the run so far.
    """
    first = next(index for index, item in enumerate(items) if item.id in sentences)
    asked = (index for index in range(first, -1, -1) if isinstance(items[index], UserMessage | SystemText))
    start = next(asked, -1) + 1
    echoes = _find_echoes(items[start:], view) | sentences
    before = [item for item in items[start:first] if item.id not in echoes]
    # An answer that only begins or ends with the sentence stays: it was given while others had not decided.
    after = [
        _remove_sentence(item) if item.id in sentences else item
        for item in items[first:]
        if not (_tells_nothing_else(item, view) if item.id in sentences else item.id in echoes)
    ]
    return [*items[:start], *before, *view.list_items(), *after]


def _tells_nothing_else(item: Item, view: RunView) -> bool:
    """Return whether an answer holds nothing but sentences and texts of the run."""
    if not isinstance(item, ModelText):
        return True
    own_texts = {text.text for turn in view.turns for text in turn.texts}
    answer = _remove_linked_lines(item.text)
    if not answer or answer in own_texts:
        return True
    # A client that lets an answer go on puts what comes right behind the sentence: the sentence, or the run's texts.
    text = item.text
    for own_text in sorted(own_texts, key=len, reverse=True):
        text = text.replace(own_text, "")
    return not _remove_linked_lines(text)


def _find_echoes(items: Sequence[Item], view: RunView) -> set[str]:
    """Return the ids of the items that repeat what the run has said or called."""
    texts = {text.text for turn in view.turns for text in turn.texts}
    calls = {
        item.id
        for item in items
        if isinstance(item, Call) and f"call_{item.provider_id.removeprefix('mcp_')[-_DIGITS:]}" in view.calls
    }
    results = {item.id for item in items if isinstance(item, Result) and item.call_id in calls}
    repeated = {item.id for item in items if isinstance(item, ModelText) and item.text in texts}
    return calls | results | repeated
