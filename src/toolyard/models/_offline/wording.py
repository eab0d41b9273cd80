"""What is said in the end: results, questions and refusals in the user's language. It decides nothing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from toolyard.models._offline.places import Place, label
from toolyard.models._offline.profiles import Profile
from toolyard.models._offline.progress import Outcome, is_empty
from toolyard.models._offline.requests import Request

MOST_ROWS = 20
MOST_DETAILS = 4
MOST_EXAMPLES = 4
NAMES = ("name", "title", "item", "label", "subject", "product", "task", "page", "summary", "content", "id", "code")
_HIDDEN = ("ok", "success", "id", "handle")
_VERBS = {
    "add": ("I've added {item}{where}{more}.", "已添加{item}{more}。"),
    "remove": ("I've removed {item}{where}{more}.", "已移除{item}{more}。"),
    "create": ("I've created {item}{more}.", "已创建{item}{more}。"),
    "update": ("{item} is now{more}.", "{item} 已更新{more}。"),
    "open": ("I've opened {item}{more}.", "已打开{item}{more}。"),
    "switch": ("I've asked for {item}{more}.", "已执行 {item}{more}。"),
}
_DONE = ("Done: {item}{more}.", "已完成：{item}{more}。")
_CONNECT = {
    "en": 'To talk to a real one, set a model, for example model = "openai:gpt-4o-mini" with OPENAI_API_KEY, '
    'or "ollama:qwen3".',
    "zh": '要接入真正的模型，请在配置中设置 model，例如 "dashscope:qwen-plus"'
    '（需要 DASHSCOPE_API_KEY）或 "ollama:qwen3"。',
}
_TALK: dict[str, tuple[str, str]] = {
    "greeting": ("Hello! ", "你好！"),
    "feeling": ("Hello, all is well here, thank you. ", "你好，一切正常，谢谢。"),
    "thanks": ("You're welcome!", "不客气！"),
    "farewell": ("Goodbye!", "再见！"),
    "who": ("I'm Toolyard's offline planner, not a language model. ", "我是 Toolyard 自带的离线助手，不是语言模型。"),
    "help": ("I'm Toolyard's offline planner, not a language model. ", "我是 Toolyard 自带的离线助手，不是语言模型。"),
    "agreed": ("All right. ", "好的。"),
    "never_mind": ("All right, I'll leave it.", "好的，那就不做了。"),
}


def pick(language: str, english: str, chinese: str) -> str:
    return chinese if language == "zh" else english


def talk(kind: str, profiles: Sequence[Profile], language: str) -> str:
    said = pick(language, *_TALK[kind])
    if kind in ("thanks", "farewell", "never_mind"):
        return said
    more = _CONNECT[language] if kind in ("who", "help") else ""
    return f"{said}{abilities(profiles, language)} {more}".strip()


def cannot(profiles: Sequence[Profile], language: str) -> str:
    """An honest refusal: what this is not, what it can do here, and how to get more."""
    first = pick(
        language,
        "I can't do that: I'm Toolyard's offline planner, not a language model, and no tool here is for it. ",
        "这个我做不了：我是 Toolyard 自带的离线助手，不是语言模型，这里也没有适合的工具。",
    )
    return f"{first}{abilities(profiles, language)} {_CONNECT[language]}"


def abilities(profiles: Sequence[Profile], language: str) -> str:
    tries = [
        next((one for one in profile.tool.examples if (not one.isascii()) == (language == "zh")), "")
        or next(iter(profile.tool.examples), "")
        for profile in profiles
    ]
    shown = [f"“{one}”" for one in tries if one][:MOST_EXAMPLES]
    if not shown:
        shown = [profile.tool.name for profile in profiles][:MOST_EXAMPLES]
    if not shown:
        return pick(language, "There are no tools here that I could use.", "这里没有我可以使用的工具。")
    return pick(language, f"You can say, for example: {', '.join(shown)}.", f"可以这样说：{'、'.join(shown)}。")


def question(request: Request, place: Place, language: str) -> str:
    """One question for one missing value."""
    name = label(place, language)
    if place.kind == "choice":
        choices = place.choices[:12]
        return pick(language, f"Which {name}: {', '.join(choices)}?", f"请问{name}是哪一个：{'、'.join(choices)}？")
    if place.kind in ("day", "moment", "month", "clock"):
        return pick(language, f"When: what date and time should I use as the {name}?", f"请问是什么时间（{name}）？")
    if place.kind == "number":
        return pick(language, f"What {name}, as a number?", f"请问{name}是多少？")
    verb = _verb_of(request)
    if place.role == "title":
        return pick(language, f"What should the {name} be?", f"请问{name}是什么？")
    asked = {
        "add": ("What should I add?", "请问要添加什么？"),
        "remove": ("What should I remove?", "请问要移除什么？"),
        "find": ("What should I look for?", "请问要查找什么？"),
        "open": ("Which one should I open?", "请问要打开哪一个？"),
        "show": ("Which ones should I show?", "请问要显示哪些？"),
    }.get(verb, (f"Which {name} do you mean?", f"请问{name}是什么？"))
    return pick(language, *asked)


def answer(outcomes: Sequence[Outcome], language: str) -> str:
    """What became of everything, one sentence or list after the other."""
    return "\n".join(dict.fromkeys(_told(outcome, language) for outcome in outcomes))


def _told(outcome: Outcome, language: str) -> str:
    if outcome.state == "failed":
        return _failure(outcome, language)
    if outcome.state == "nothing":
        return _nothing(outcome, language)
    if outcome.request.profile.reads and _verb_of(outcome.request) != "open":
        return _reading(outcome, language)
    return _effect(outcome, language)


def _failure(outcome: Outcome, language: str) -> str:
    result = outcome.result
    said = result.error.error if result and result.error else ""
    about = f"“{outcome.request.item}”" if outcome.request.item else ""
    return pick(
        language,
        f"That did not work{' for ' + about if about else ''}: {said or 'the tool gave no reason'}.".replace("..", "."),
        f"{about}没能完成：{said or '工具没有说明原因'}。",
    )


def _nothing(outcome: Outcome, language: str) -> str:
    item = outcome.request.item
    if not item:
        return pick(language, "There is nothing there: it is empty.", "里面没有东西，是空的。")
    return pick(language, f"I found nothing for “{item}”.", f"没有找到“{item}”。")


def _reading(outcome: Outcome, language: str) -> str:
    lines = list(_lines(outcome.value, language))
    if not lines:
        return pick(language, "Done.", "完成。")
    if len(lines) == 1:
        return lines[0]
    item = outcome.request.item
    head = pick(
        language,
        f"Here is what I found{f' for “{item}”' if item else ''}:",
        f"{f'“{item}”的' if item else ''}结果如下：",
    )
    return "\n".join([head, *(f"- {line}" if "\n" not in line else line for line in lines)])


def _effect(outcome: Outcome, language: str) -> str:
    request, value = outcome.request, outcome.value
    verb = _verb_of(request)
    known = cast("Mapping[str, object]", value) if isinstance(value, Mapping) else dict[str, object]()
    named = _name({key: one for key, one in known.items() if key not in ("id", "code")}, language)
    name = named or _name(outcome.chosen, language) or request.item or _name(known, language)
    pointed = None if name else _pointed_at(request)
    details = _given(request, verb, pointed)
    if verb == "open":
        details = [
            _scalar(one)
            for key, one in known.items()
            if key not in (*_HIDDEN, "page", "note") and _is_scalar(one) and not key.startswith("name")
        ]
    elif not name or verb not in _VERBS:
        details += _came_of_it(request, known, name)
    english, chinese = _VERBS.get(verb, _DONE) if name or verb == "open" else _DONE
    if pointed:
        said = label(pointed, language)
        name = f"{said[0].upper()}{said[1:]} {_scalar(request.values[pointed.name])}"
    more = f" ({', '.join(details)})" if details else ""
    if verb == "update" and "status" in known:
        more = f" “{_scalar(known['status'])}”"
    if not name and verb != "open":
        said = pick(language, f"Done{more}.", f"已完成{more}。")
    else:
        item = name or pick(language, "it", "该项")
        said = pick(language, english, chinese).format(item=item, more=more, where=_where(request.profile))
    note = known.get("note")
    if not known and isinstance(value, str) and value:
        said = f"{said} {value}"
    return f"{said} {note}" if isinstance(note, str) and note else said


def _given(request: Request, verb: str, pointed: Place | None) -> list[str]:
    """What a tool was told, but for the thing itself."""
    told = {place.name for place in (request.profile.main, pointed) if place}
    return [
        f"{key.replace('_', ' ')} {_scalar(one)}"
        for key, one in request.values.items()
        if _is_scalar(one) and one != 1 and verb not in ("switch", "open") and key not in told
    ]


def _came_of_it(request: Request, known: Mapping[str, object], name: str) -> list[str]:
    """What a tool told that nobody had said before: a price, a number to keep."""
    said = [*request.values.values(), name]
    return [
        f"{key.replace('_', ' ')} {_scalar(one)}"
        for key, one in known.items()
        if _is_scalar(one) and not isinstance(one, bool) and one not in said and key not in ("ok", "success", "note")
    ][:MOST_DETAILS]


def _pointed_at(request: Request) -> Place | None:
    """The place by which it was said what is meant, where that has no name: `ticket number 502`."""
    values = request.values
    places = [place for place in request.profile.places if place.required and _is_scalar(values.get(place.name))]
    order = ("word", "number", "text", "choice")
    return next((place for kind in order for place in places if place.kind == kind), None)


def _where(profile: Profile) -> str:
    """` to the grocery list`, as the tool's own description says where things go."""
    first = re.split(r"[.。(]", profile.tool.description)[0]
    found = re.search(
        r" (to|on|onto|into|in|from|out of) ((?:the|a|your|our) [a-z' -]{2,40})$", first.strip(), re.IGNORECASE
    )
    if not found:
        return ""
    small = found[1].casefold()
    return f" {'from' if small in ('from', 'out of') else 'to'} {found[2]}"


def _verb_of(request: Request) -> str:
    """The verb that the tool is named after, as far as one is known."""
    order = ("update", "remove", "switch", "create", "add", "open", "find", "stat", "show")
    actions = request.profile.actions
    first = max(actions.values(), default=0.0)
    return next((verb for verb in order if actions.get(verb, 0.0) == first and first), "")


def _lines(value: object, language: str, depth: int = 0) -> Iterator[str]:
    """A result in words, without the marks of a programmer."""
    if isinstance(value, Mapping):
        yield from _object(cast("Mapping[str, object]", value), language, depth)
    elif isinstance(value, list):
        rows = cast("list[object]", value)
        for row in rows[:MOST_ROWS]:
            yield _row(row, language)
        if len(rows) > MOST_ROWS:
            yield pick(language, f"and {len(rows) - MOST_ROWS} more", f"还有 {len(rows) - MOST_ROWS} 项")
    elif value is not None:
        yield _scalar(value)


def _object(value: Mapping[str, object], language: str, depth: int) -> Iterator[str]:
    for key, one in value.items():
        if key in _HIDDEN:
            continue
        name = key.replace("_", " ")
        if isinstance(one, Mapping):
            inner = ", ".join(
                f"{part} {_row(said, language)}" for part, said in cast("Mapping[str, object]", one).items()
            )
            yield f"{name}: {inner}" if inner else pick(language, f"{name}: nothing", f"{name}：没有")
        elif isinstance(one, list):
            if is_empty(cast("object", one)):
                yield pick(language, f"{name}: nothing", f"{name}：没有")
            yield from _lines(cast("object", one), language, depth + 1)
        elif one is not None and one != "":
            text = _scalar(one)
            yield text if "\n" in text else f"{name}: {text}"


def _row(row: object, language: str) -> str:
    if isinstance(row, Mapping):
        known = cast("Mapping[str, object]", row)
        name = _name(known, language)
        rest = [
            _detail(key, one)
            for key, one in known.items()
            if not key.startswith(("name", "title")) and _is_scalar(one) and _scalar(one) != name and key != "ok"
        ]
        return f"{name} ({', '.join(rest)})" if name and rest else name or ", ".join(rest)
    if isinstance(row, list):
        return ", ".join(_row(one, language) for one in cast("list[object]", row))
    return _scalar(row)


def _detail(key: str, value: object) -> str:
    return _scalar(value) if len(key) > 12 or key in ("unit",) else f"{key.replace('_', ' ')} {_scalar(value)}"


def _name(value: Mapping[str, object], language: str) -> str:
    """What a thing is called, in the user's language where it has a name in it."""
    keys = (*(f"{name}_{language}" for name in NAMES[:3]), *NAMES)
    return next((_scalar(value[key]) for key in keys if isinstance(value.get(key), str) and value[key]), "")


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)
