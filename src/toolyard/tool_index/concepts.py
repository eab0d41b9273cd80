"""Groups of words with similar meanings, and the actions that words stand for: to look, make, change or remove.

`concepts.txt` holds the groups; a Chinese word has two characters there, since the index splits Chinese into pairs.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources

from toolyard.tool_index.words import extract_words, stem

PREFIX_LENGTH = 6
_VERBS = {
    "make": "create add new insert register make 新建",
    "remove": "delete remove cancel 删除",
    "change": "update change edit modify set 修改",
    "look": "get list show search find read view fetch check 查看 列出 搜索",
    "count": "count",
    "export": "export",
    "archive": "archive",
    "copy": "duplicate copy clone",
    "share": "share",
}
"""The verbs that names of tools begin with, by action."""
_ACTIONS = {
    "make": """create add make new insert open register set book put build generate write compose record log enter
        reserve order note draft schedule buy purchase start begin launch submit file issue apply enroll subscribe
        upload hire invite post publish report arrange plan save give take request upload import install prepare
        sell trade pay send sign
        新建 创建 添加 新增 增加 建立 生成 预订 预定 预约 申请 提交 登记 购买 下单""",
    "remove": """delete remove erase cancel drop discard clear cut kill revoke rid throw void waive withdraw forget
        dismiss close end destroy wipe purge strike uninstall unsubscribe terminate
        删除 移除 取消 清除 去掉 撤销 退掉""",
    "change": """update change edit modify set rename adjust correct alter replace amend revise move reschedule postpone
        extend increase raise lower reduce shift fix switch mark assign reassign convert rewrite upgrade configure swap
        exchange sort
        修改 更新 更改 编辑 调整 变更 推迟 改成""",
    "look": """show read view display fetch retrieve see tell check look list search find lookup browse query count get
        what which where who whose when how is are was were do does did any have has open know detail information info
        status history available upcoming latest recent overview compare track download
        查看 显示 获取 看看 列出 全部 所有 哪些 搜索 查找 查询 寻找 检索 多少 什么 哪里 怎么 几个 有没 查一 看一""",
    "count": "count many number total sum 多少 几个 统计",
    "export": "export download extract 导出 下载",
    "archive": "archive store 归档 存档",
    "copy": "duplicate copy clone 复制 拷贝",
    "share": "share invite forward grant 分享 共享 邀请 转发",
}
_EXPLICIT_ACTIONS = frozenset({"remove", "count", "export", "archive", "copy", "share"})
"""Actions that only a query which names them can mean."""
_QUESTION_WORDS = "what which where who whose when how is are was were do does did any have has know open see tell get"
"""Words that mean `look` at the beginning of a query; later they occur in any sentence."""
_PHRASES = (
    ("remove", r"\bany ?more\b|\bno longer\b|\bg[eo]t rid\b|\btake [\w' ]+ (?:off|out)\b|\b(?:is|called) off\b"
     r"|\bthrow[\w' ]* (?:away|out)\b|不要了|不用了"),
    ("change", r"\binstead\b|\bis wrong\b|\bshould (?:be|say)\b|改一下|改成|换成"),
)  # fmt: skip
"""Phrases that replace a verb."""
_PLAIN_VERBS = """create add make new delete remove update change edit modify get list show search find view look fetch
    retrieve display see read open"""
"""Verbs that go with any noun, and so say little about which tool is meant."""


@cache
def _load_concepts() -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = {}
    lines = resources.files("toolyard.tool_index").joinpath("concepts.txt").read_text("utf-8").splitlines()[1:]
    for number, line in enumerate(lines):
        for word in dict.fromkeys(stem(word) for word in line.split()):
            groups.setdefault(word, []).append(f"~{number}")
    return {word: tuple(numbers) for word, numbers in groups.items()}


def _group_by_word(lines: Mapping[str, str]) -> dict[str, frozenset[str]]:
    stems = {action: {stem(word) for word in line.split()} for action, line in lines.items()}
    every = set[str]().union(*stems.values())
    return {word: frozenset(action for action, line in stems.items() if word in line) for word in every}


@cache
def _load_verbs() -> dict[str, frozenset[str]]:
    return _group_by_word(_VERBS)


@cache
def _load_actions() -> dict[str, frozenset[str]]:
    return _group_by_word(_ACTIONS)


@cache
def _load_question_words() -> frozenset[str]:
    return frozenset(stem(word) for word in _QUESTION_WORDS.split())


@cache
def _compile_phrases() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((action, re.compile(phrase, re.IGNORECASE)) for action, phrase in _PHRASES)


@cache
def _load_plain_verbs() -> frozenset[str]:
    return frozenset(stem(word) for word in _PLAIN_VERBS.split())


def find_concepts(word: str) -> tuple[str, ...]:
    """Return the groups of a stemmed word, as index keys. They begin with `~`, so that no query word equals one."""
    return _load_concepts().get(word, ())


def get_prefix_keys(word: str) -> tuple[str, ...]:
    """Return the key that a word shares with words of its family, such as `organizer` and `organization`."""
    return (f"^{word[:PREFIX_LENGTH]}",) if len(word) >= PREFIX_LENGTH and word.isalpha() and word.isascii() else ()


def is_plain_verb(word: str) -> bool:
    return word in _load_plain_verbs()


def is_action(word: str) -> bool:
    """Return whether a stemmed word is one that people order or ask with: `show`, `add`, `查看`."""
    return word in _load_actions()


def find_tool_actions(name: Sequence[str]) -> frozenset[str]:
    """Return the actions of a tool by the verb in its name; without a known verb, the words of the name themselves."""
    return _find_first(name, _load_verbs()) or frozenset(name)


def find_query_actions(query: str) -> frozenset[str]:
    """Return the actions that a query may ask for.

    They are those of its first known verb, and of the first one that is not only a question word, unless a phrase or a
    question word at the beginning decides.
    """
    words, question_words = extract_words(query, stop_words=frozenset()), _load_question_words()
    first_word = frozenset(extract_words(query)[:1]) - _load_plain_verbs()
    first = _find_first(words, _load_actions()) | first_word
    by_phrase = next((frozenset({action}) for action, phrase in _compile_phrases() if phrase.search(query)), _NOTHING)
    if by_phrase or (words and words[0] in question_words):
        return first | by_phrase
    return first | _find_first((word for word in words if word not in question_words), _load_actions())


_NOTHING: frozenset[str] = frozenset()


def _find_first(words_in_order: Iterable[str], actions: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return next((actions[word] for word in words_in_order if word in actions), _NOTHING)


def score_actions(tool_actions: frozenset[str], query_actions: frozenset[str]) -> float:
    """Return the factor for how well the actions of a tool fit those of a query."""
    if tool_actions & query_actions:
        return 1.3
    if tool_actions & _EXPLICIT_ACTIONS:
        return 0.7
    known_actions = tool_actions & _VERBS.keys()
    if query_actions & _VERBS.keys():
        return 0.9 if known_actions else 1.0
    return 0.85 if "change" in known_actions else 1.1 if "make" in known_actions else 1.0
