"""Decides the offline model's next step: call, propose, ask, offer a choice, or show results. It runs nothing itself.

A message that matches a tool's own example becomes that call; for any other the tool index finds the likely tools. A
read-only call may run; a call that changes something is proposed, unless the message is a plain order for it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.items import Call, Confirm, Item, ModelText, Result, Suggestion, UserMessage
from toolyard.models.offline.catalogue import Catalogue, CatalogueTool
from toolyard.models.offline.dialogue import (
    Dialogue,
    Option,
    find_dialogue,
    find_open_dialogue,
    find_option,
    get_last_exchange,
    is_no,
    is_yes,
)
from toolyard.models.offline.evidence import Draft, ParameterFiller
from toolyard.models.offline.lookups import build_lookup_calls, read_rows, split_lookups
from toolyard.models.offline.parameters import MAX_ITEMS, Parameter, detect_language, split_list
from toolyard.models.offline.templates import TemplateFit
from toolyard.models.offline.text import TokenizedText, has_reservation, is_question, parse_message
from toolyard.models.offline.wording import (
    describe_abilities,
    describe_call,
    describe_tool,
    format_question,
    format_sentence,
    format_title,
    pick_example,
    show_result,
    show_value,
)
from toolyard.tool_index.index import ToolMatch
from toolyard.tool_index.words import extract_words as index_words

CLEAR_WINNER_RATIO = 1.2
"""The ratio of the best score to the second that makes the first tool the clear winner."""
MIN_LIKELY_SHARE = 0.35
"""The share of the best score below which a tool is not offered."""
MAX_OFFERED, MAX_ROWS = 3, 8
"""The most tools, and the most rows of a look-up, that are offered as a choice."""


class OfflineStep(Struct, frozen=True, kw_only=True):
    """The text and calls of one turn, and the state that it leaves open."""

    text: str = ""
    calls: tuple[Draft, ...] = ()
    confirm: Confirm = "no"
    dialogue: Dialogue | None = None
    suggestions: tuple[Suggestion, ...] = ()


class Planner:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def next_step(self, items: Sequence[Item], now: datetime) -> OfflineStep:
        message = next((item.text for item in reversed(items) if isinstance(item, UserMessage)), "")
        turn = _PlannerTurn(self._catalogue, message, now)
        if items and isinstance(items[-1], Result):
            step = turn.handle_results(get_last_exchange(items))
        else:
            dialogue = find_open_dialogue(items)
            step = (turn.read_answer(dialogue) if dialogue else None) or turn.read_request()
        return _add_introduction(step, items, turn.language)


class _PlannerTurn:
    """The planning of one turn: for a message, or for the results of its calls."""

    def __init__(self, catalogue: Catalogue, message: str, now: datetime) -> None:
        self._catalogue = catalogue
        self._message = message
        self._text = parse_message(message)
        self._now = now
        self.language = detect_language(message)

    @property
    def _is_plain(self) -> bool:
        """Whether the message was read completely and does not ask, negate, report or set a condition."""
        text = self._text
        return (
            text.has_plain_marks
            and not text.is_cut
            and not is_question(self._message)
            and not has_reservation(self._message)
        )

    def read_request(self) -> OfflineStep:
        """Read a message as a new request: as an example of a tool, else by its words."""
        fits = self._catalogue.find_fits(self._text, self._now)
        if len(fits) == 1:
            return self._from_fit(fits[0])
        if fits:
            return self._choose([Option(_label_fit(fit), _build_drafts(fit)) for fit in fits[:MAX_OFFERED]])
        return self._find_tool()

    def read_answer(self, dialogue: Dialogue) -> OfflineStep | None:
        """Read a message as the answer to the open state; None if it is something else."""
        is_value = dialogue.stage == "ask" and self._parse_value(dialogue) is not None
        if is_no(self._message) and not is_value:
            return OfflineStep(text=format_sentence("declined", self.language))
        match dialogue.stage:
            case "confirm":
                return OfflineStep(calls=dialogue.drafts, confirm="given") if is_yes(self._message) else None
            case "choose":
                option = find_option(self._message, dialogue.options)
                return self._take_option(option, dialogue) if option else None
            case "ask":
                return self._take_answer(dialogue)
            case "lookup":
                return None

    def handle_results(self, exchange: Sequence[Item]) -> OfflineStep:
        """Continue with the values that were looked up, or show the results of the calls."""
        turn, results = _split_last_turn(exchange)
        calls = [item for item in turn if isinstance(item, Call) and item.id in results]
        dialogue = find_dialogue(turn)
        if dialogue is not None and dialogue.stage == "lookup":
            return self._apply_lookups(dialogue, [results[call.id] for call in calls])
        lines = [self._show_result(results[call.id], call.arguments) for call in calls]
        return OfflineStep(text="\n\n".join(dict.fromkeys(lines)) or format_sentence("nothing_fits", self.language))

    def _show_result(self, result: Result, arguments: Mapping[str, object]) -> str:
        entry = self._catalogue.get_tool(result.tool)
        return show_result(result, entry.tool if entry else None, arguments, self.language)

    # Reading a message

    def _from_fit(self, fit: TemplateFit) -> OfflineStep:
        plain = fit.is_plain and self._is_plain
        if fit.arguments == ({},) and not fit.words:  # an example without a slot names the tool, not its values
            draft = self._fill(fit.tool.name, self._text, takes_rest=False)
            return self._advance((draft,), runs_unasked=plain and not draft.arguments)
        return self._advance(self._move_counts(_build_drafts(fit)), runs_unasked=plain)

    def _find_tool(self) -> OfflineStep:
        """Take the tool that wins clearly by its score, or as the only complete one; else let the person choose."""
        likely = self._find_likely()
        if not likely:
            return offer_examples(self._catalogue, self._text.whole, self.language)
        drafts = [self._fill(match.tool.name, self._text) for match in likely]
        if len(likely) == 1 or likely[0].score >= CLEAR_WINNER_RATIO * likely[1].score:
            winner = drafts[0]
        else:
            complete = [draft for draft in drafts if self._is_complete(draft)]
            winner = complete[0] if len(complete) == 1 else None
        if winner and (winner.is_covered or not self._is_read_only(winner) or not self._takes_words(winner)):
            return self._advance(self._move_counts(self._split(winner)))
        return self._choose_tool(likely)

    def _find_likely(self) -> list[ToolMatch]:
        ranked = self._catalogue.search(self._text.whole, MAX_OFFERED + 1)
        return [match for match in ranked[:MAX_OFFERED] if match.score >= MIN_LIKELY_SHARE * ranked[0].score]

    def _choose_tool(self, likely: Sequence[ToolMatch], note: str = "") -> OfflineStep:
        return self._choose(
            [Option(format_title(match.tool), (Draft(tool=match.tool.name),)) for match in likely], note
        )

    def _split(self, draft: Draft) -> tuple[Draft, ...]:
        """Return one draft for each part of a list such as `bread and cheese`, if each is short enough for a name."""
        entry = self._catalogue.get_tool(draft.tool)
        free = [item.name for item in entry.parameters if item.is_free_text and item.required] if entry else []
        if len(free) != 1 or not isinstance(text := draft.arguments.get(free[0]), str):
            return (draft,)
        parts = split_list(text)
        if not 1 < len(parts) <= MAX_ITEMS or any(len(part.split()) > 2 for part in parts):
            return (draft,)
        return tuple(Draft(tool=draft.tool, arguments={**draft.arguments, free[0]: part}) for part in parts)

    def _is_complete(self, draft: Draft) -> bool:
        """Return whether the message fills every required parameter and has no other words."""
        entry = self._catalogue.get_tool(draft.tool)
        missing = entry.find_missing(draft) if entry else None
        is_filled = entry is not None and (missing is None or missing.name in draft.lookups)
        return is_filled and draft.is_covered and bool(draft.arguments or draft.lookups)

    def _takes_words(self, draft: Draft) -> bool:
        """Return whether a tool has a parameter that left-over words could be meant for."""
        entry = self._catalogue.get_tool(draft.tool)
        return entry is None or any(item.is_free_text or item.name in entry.tool.sources for item in entry.parameters)

    def _is_read_only(self, draft: Draft) -> bool:
        entry = self._catalogue.get_tool(draft.tool)
        return entry is not None and entry.tool.read_only

    def _fill(self, tool: str, text: TokenizedText, *, takes_rest: bool = True) -> Draft:
        entry = self._catalogue.get_tool(tool)
        if entry is None:
            return Draft(tool=tool)
        filler = ParameterFiller(entry.tool, entry.parameters, text, self._now, detect_language(text.whole))
        return filler.build_draft(takes_rest=takes_rest)

    def _move_counts(self, drafts: Sequence[Draft]) -> tuple[Draft, ...]:
        """Move a leading number, as in `3 lemons`, to the one parameter that is a number."""
        return tuple(self._move_count(draft) for draft in drafts)

    def _move_count(self, draft: Draft) -> Draft:
        entry = self._catalogue.get_tool(draft.tool)
        counts = [item for item in entry.parameters if item.kind == "number"] if entry else []
        texts = {**draft.arguments, **draft.lookups}
        if entry is None or len(counts) != 1 or counts[0].name in texts:
            return draft
        for name, text in texts.items():
            free = name in draft.lookups or entry.get_parameter(name).is_free_text
            number, _, words = text.partition(" ") if free and isinstance(text, str) else ("", "", "")
            value = counts[0].parse(number, self._now, self.language) if words.strip() else None
            if value is not None:
                arguments = {**draft.arguments, counts[0].name: value}
                if name in draft.lookups:
                    return Draft(tool=draft.tool, arguments=arguments, lookups={**draft.lookups, name: words.strip()})
                return Draft(tool=draft.tool, arguments={**arguments, name: words.strip()}, lookups=draft.lookups)
        return draft

    # Reading an answer

    def _take_option(self, option: Option, dialogue: Dialogue) -> OfflineStep:
        if dialogue.message:  # a tool was chosen: the first message still fills its parameters
            text = parse_message(dialogue.message)
            return self._advance(tuple(self._refill(draft, text) for draft in option.drafts))
        return self._advance(option.drafts, runs_unasked=dialogue.runs_unasked)

    def _refill(self, draft: Draft, text: TokenizedText) -> Draft:
        return draft if draft.arguments or draft.lookups else self._fill(draft.tool, text)

    def _parse_value(self, dialogue: Dialogue) -> object | None:
        entry = self._catalogue.get_tool(dialogue.drafts[0].tool) if dialogue.drafts else None
        if entry is None or not self._text.tokens:
            return None
        text = self._text.text_between(0, len(self._text.tokens))
        value = entry.get_parameter(dialogue.parameter).parse(text, self._now, self.language)
        return value if value is not None else self._fill(entry.tool.name, self._text).arguments.get(dialogue.parameter)

    def _take_answer(self, dialogue: Dialogue) -> OfflineStep | None:
        if self._catalogue.find_fits(self._text, self._now):
            return None  # the message is a new order
        draft, *others = dialogue.drafts
        entry = self._catalogue.get_tool(draft.tool)
        value = self._parse_value(dialogue)
        if entry is None or value is None:
            return None
        if dialogue.parameter in entry.tool.sources:
            draft = Draft(tool=draft.tool, arguments=draft.arguments, lookups={dialogue.parameter: str(value)})
        else:
            draft = Draft(tool=draft.tool, arguments={**draft.arguments, dialogue.parameter: value})
        is_bare = self._is_plain and len(self._text.tokens) == 1
        return self._advance((draft, *others), runs_unasked=dialogue.runs_unasked and is_bare)

    # Completing the calls

    def _advance(self, drafts: Sequence[Draft], *, runs_unasked: bool = False) -> OfflineStep:
        """Look up values with other tools, ask for what is missing, then run or propose the calls."""
        drafts = self._move_counts([part for draft in drafts for part in split_lookups(draft)])[:MAX_ITEMS]
        if lookups := [call for draft in drafts for call in build_lookup_calls(self._catalogue, draft)]:
            return OfflineStep(
                calls=tuple(lookups),
                dialogue=Dialogue(stage="lookup", drafts=drafts, runs_unasked=runs_unasked),
            )
        for at, draft in enumerate(drafts):
            entry = self._catalogue.get_tool(draft.tool)
            if entry is None:
                return OfflineStep(text=format_sentence("nothing_fits", self.language))
            if missing := entry.find_missing(draft):
                # The incomplete draft goes first: `Dialogue.parameter` is a parameter of the first draft.
                reordered = (draft, *drafts[:at], *drafts[at + 1 :])
                return self._ask(entry, missing, reordered, runs_unasked)
        return self._run_or_propose(drafts, runs_unasked)

    def _run_or_propose(self, drafts: tuple[Draft, ...], runs_unasked: bool) -> OfflineStep:
        tools = [entry.tool for draft in drafts if (entry := self._catalogue.get_tool(draft.tool))]
        if runs_unasked or all(tool.read_only for tool in tools):
            return OfflineStep(calls=drafts)
        descriptions = "; ".join(describe_call(draft.tool, draft.arguments) for draft in drafts)
        return OfflineStep(
            text=format_sentence("propose", self.language, calls=descriptions),
            calls=drafts,
            confirm="ask",
            dialogue=Dialogue(stage="confirm", drafts=drafts),
        )

    def _ask(
        self, entry: CatalogueTool, missing: Parameter, drafts: Sequence[Draft], runs_unasked: bool
    ) -> OfflineStep:
        labels = [str(choice) for choice in missing.choices[:MAX_ROWS]]
        labels += [] if missing.kind != "switch" else ["on", "off"] if self.language == "en" else ["开", "关"]
        return OfflineStep(
            text=format_question(entry.tool, missing, self.language),
            dialogue=Dialogue(stage="ask", drafts=tuple(drafts), parameter=missing.name, runs_unasked=runs_unasked),
            suggestions=tuple(Suggestion(label=label, text=label) for label in labels),
        )

    def _choose(self, options: Sequence[Option], note: str = "") -> OfflineStep:
        tools = [self._catalogue.get_tool(option.drafts[0].tool) for option in options]
        lines = [
            describe_tool(entry.tool, self.language) if entry else option.label
            for entry, option in zip(tools, options, strict=True)
        ]
        head = "\n".join(filter(None, (note, format_sentence("choose_tool", self.language))))
        return self._offer_options(head, lines, options, message=self._text.whole)

    def _offer_options(
        self,
        head: str,
        lines: Sequence[str],
        options: Sequence[Option],
        *,
        message: str = "",
        runs_unasked: bool = False,
    ) -> OfflineStep:
        text = "\n".join([head, *(f"{number}. {line}" for number, line in enumerate(lines, 1))])
        suggestions = tuple(
            Suggestion(label=option.label, text=str(number)) for number, option in enumerate(options, 1)
        )
        dialogue = Dialogue(stage="choose", options=tuple(options), message=message, runs_unasked=runs_unasked)
        return OfflineStep(text=text, dialogue=dialogue, suggestions=suggestions)

    # Values from other tools

    def _apply_lookups(self, dialogue: Dialogue, results: Sequence[Result]) -> OfflineStep:
        """Fill each draft from the result of its look-up: a single row is taken, several are offered as a choice."""
        remaining, done, notes = list(results), list[Draft](), list[str]()
        pending, runs_unasked = list(dialogue.drafts), dialogue.runs_unasked
        while pending:
            draft = pending.pop(0)
            calls = list(build_lookup_calls(self._catalogue, draft))
            if not calls or not remaining:
                done.append(Draft(tool=draft.tool, arguments=draft.arguments))
                continue
            ((parameter, words),) = draft.lookups.items()
            result = remaining.pop(0)
            if result.outcome != "ok":
                notes.append(self._show_result(result, {}))
                continue
            rows = read_rows(self._catalogue, draft, parameter, words, result)
            if not rows:
                notes.append(format_sentence("nothing_for", self.language, words=words))
            elif len(rows) == 1:
                value, label = rows[0]
                # A row that lacks some of the words may not be what was meant: ask first.
                runs_unasked = runs_unasked and set(index_words(words)) <= set(index_words(label))
                done.append(Draft(tool=draft.tool, arguments={**draft.arguments, parameter: value}))
            else:
                return self._choose_row(draft, parameter, words, rows, (*done, *pending), runs_unasked)
        if not done and dialogue.runs_unasked:
            return OfflineStep(text="\n".join(notes))
        if not done:  # the tool was only found by its words: another one may be meant
            return self._choose_tool(self._find_likely(), "\n".join(notes))
        step = self._advance(done, runs_unasked=runs_unasked and not notes)
        return replace(step, text="\n".join(filter(None, (*notes, step.text))))

    def _choose_row(
        self,
        draft: Draft,
        parameter: str,
        words: str,
        rows: Sequence[tuple[object, str]],
        others: tuple[Draft, ...],
        runs_unasked: bool,
    ) -> OfflineStep:
        options = [
            Option(label, (Draft(tool=draft.tool, arguments={**draft.arguments, parameter: value}), *others))
            for value, label in rows[:MAX_ROWS]
        ]
        head = format_sentence("choose_row", self.language, words=words)
        return self._offer_options(head, [option.label for option in options], options, runs_unasked=runs_unasked)


def offer_examples(catalogue: Catalogue, message: str, language: str) -> OfflineStep:
    """Say in one line what can be done, and offer the tools nearest to a message: each as an example to edit."""
    tools = catalogue.find_nearest(message, MAX_OFFERED)
    return OfflineStep(
        text=describe_abilities(tools, language),
        suggestions=tuple(
            Suggestion(label=format_title(tool), text=pick_example(tool, language), edit=True) for tool in tools
        ),
    )


def _add_introduction(step: OfflineStep, items: Sequence[Item], language: str) -> OfflineStep:
    """Add to the first text of a conversation that this is not a language model."""
    if not step.text or any(isinstance(item, ModelText) for item in items):
        return step
    return replace(step, text=f"{step.text}\n\n{format_sentence('no_model', language)}")


def _label_fit(fit: TemplateFit) -> str:
    return f"{format_title(fit.tool)}: {', '.join(show_value(value) for value in fit.arguments[0].values())}"


def _build_drafts(fit: TemplateFit) -> tuple[Draft, ...]:
    return tuple(Draft(tool=fit.tool.name, arguments=arguments, lookups=fit.words) for arguments in fit.arguments)


def _split_last_turn(exchange: Sequence[Item]) -> tuple[Sequence[Item], dict[str, Result]]:
    """Return the items of the last turn, and the results of its calls."""
    end = len(exchange)
    while end and isinstance(exchange[end - 1], Result):
        end -= 1
    start = end
    while start and not isinstance(exchange[start - 1], Result):
        start -= 1
    return exchange[start:end], {item.call_id: item for item in exchange[end:] if isinstance(item, Result)}
