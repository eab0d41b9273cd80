"""Messages that are about an order and are none: they negate it, report it, ask about it or set a condition.

They are built from plain orders, so that each is as near to one as a person would write it.
"""

import random
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from toolyard.core.tools.templates import split_template


class PlainOrder(Struct, frozen=True):
    """A plain order: a template and what stands in its slots."""

    template: str
    values: dict[str, str] = {}

    @property
    def text(self) -> str:
        return self.fill(lambda value: value)

    @property
    def is_chinese(self) -> bool:
        return not self.template.isascii()

    def fill(self, change: Callable[[str], str]) -> str:
        """Return the order with each value changed."""
        return "".join(
            text + (change(self.values[slot]) if slot else "") for text, slot in split_template(self.template)
        )


Change = Callable[[PlainOrder, random.Random], str]

WHO = ("Bob", "my boss", "the customer", "she", "nobody", "the e-mail", "someone", "Anna's lawyer", "the old manual")
NEGATIONS = (
    "don't {}", "do not {}", "never {}", "please don't {}", "dont {}", "do NOT {}", "no need to {}", "{} - not!",
    "refrain from this: {}", "stop, don't {}", "under no circumstances {}", "{}, no, don't", "{} NOT", "not: {}",
    "I won't {}", "we mustn't {}", "{} is wrong", "forget it: {}", "cancel that, {}", "undo: {}",
    "{} - just kidding", "instead of {} rest", "anything but {}", "nobody may {}", "{} never", "avoid: {}",
    "{}, scratch that", "let's not {}", "hold off, {}", "{} ... nah", "skip {}", "{} was a typo",
    "the opposite of {}", "un{}",
)  # fmt: skip
REPORTS = (
    "{who} said {}", "{who} wants me to {}", "{who} told us to {} yesterday", "{}, said {who}",
    "{} is what {who} said", 'I wrote "{}" by mistake', "the button says “{}”", "{who} asked: {}", "quote: '{}'",
    "according to {who} we {}", "{who} used to {}", "I already had to {}", "yesterday: {}", "{} ({who})",
    "re: {} from {who}", "{who} will {}", "the log reads {}", "it failed to {}", "I was going to {}", "he did {}",
    "in the film they {}", "{} was done", "Subject: {}\n\n{who} sent this", "{}\n-- {who}", "title = {}",
    "{who}: {}", "error while trying to {}",
)  # fmt: skip
QUESTIONS = (
    "should I {}", "should we {}?", "{}?", "{} ?", "did you {}", "why did you {}", "what if I {}", "how do I {}",
    "what happens when I {}", "is it wise to {}", "who may {}", "can one {}", "shall I {}", "do I have to {}",
    'is "{}" an order', "what does {} mean", "explain {}", "{}, right?", "{}... or not?", "am I allowed to {}",
    "would it hurt to {}", "{} \uff1f", "which tools {}", "how often did we {}", "ought I to {}",
    "{}, or should I wait", "is it possible to {}", "when do we {}", "help me decide: {}", "{}, yes or no",
)  # fmt: skip
CONDITIONS = (
    "{} if {who} agrees", "if it rains, {}", "{} unless {who} objects", "{} provided {who} pays",
    "once he pays, {}", "{} when {who} is back", "{} after lunch, maybe", "in case of doubt {}",
    "{} but only on Monday", "{} as soon as we can", "assuming {who} agrees, {}", "{} until {who} says stop",
    "when ready: {}", "suppose I {}", "{} or do nothing", "either {} or wait", "{} in theory", "hypothetically, {}",
    "{} should {who} ask", "were I to {}", "{}, with approval", "wait for {who}, then {}", "{} later",
    "{} the day after tomorrow if possible", "on condition of payment {}",
)  # fmt: skip
CHINESE = (
    "别{}", "不要{}", "请不要{}", "千万别{}", "我没有{}", "不用{}了", "{}是不对的", "先别{}", "禁止{}", "不许{}",
    "停止{}", "小王说{}", "他让我{}", "老板叫我{}", "“{}”是他写的", "昨天已经{}了", "据说要{}", "邮件里写着：{}",
    "他打算{}", "{}，小王说", "{}吗", "{}好吗", "{}\uff1f", "要不要{}", "是不是该{}", "为什么{}", "怎么{}",
    "谁能{}", "什么时候{}", "可不可以{}", "{}行不行", "如果下雨就{}", "要是他同意就{}", "等他回来再{}",
    "{}的话会怎样", "除非他反对，{}", "假如{}", "{}，前提是他付钱", "或者{}", "万一{}呢", "取消：{}", "撤销{}",
    "{}，算了", "{}，开玩笑的", "我不想{}", "{}之前先问我", "暂缓{}", "拒绝{}", "没必要{}", "反对{}",
)  # fmt: skip
INSIDE = (
    "{} if it is cheap", "{} provided Bob agrees", "{}, should it be cheap,", "{} unless we have some", "no {}",
    "{} once it is cheaper", "anything but {}", "everything except {}", "{} as Bob keeps saying",
    "{} or whatever he said", "{}, I was told,", "{} in case Bob comes", "{} assuming that it is there", "{} not",
    "never {}", "{} after Bob pays", "{} which Bob may want", "neither {}", "{} (if needed)", "{}? maybe",
    "{} *not*", "less {} than Bob wanted",
)  # fmt: skip
CHINESE_INSIDE = (
    "{}如果便宜", "不是{}", "{}先不要", "{}暂时别", "{}要是有", "{}停止", "{}晚点", "{}或者别的", "除{}以外",
    "{}少",
)  # fmt: skip
MARKS = (
    "🚫 {}", "{} ❌", "~~{}~~", "> {}", "// {}", "<!-- {} -->", "[ ] {}", "({})", "“{}”", '"{}"', "'{}'", "`{}`",
    "¬{}", "{} /s", "{} 🙅", "*{}*", "- [ ] {}", "「{}」", "{} :(", "{} ;)", "= {}", "${}", "{} ✗", "×{}",
    "{}\u0336", "\u202e{}", "{}😂", "{} ➖", "@bot {}", "|{}|", "{} (!)", "/{}", "\\{}", "《{}》", "{{{}}}", "<{}>",
    "{} ^^", "⛔{}",
)  # fmt: skip
NUMBERS = (
    "{}–{}", "{}/{}", "{}-{}", "{}:{}", "{} {}", "~{}", "≠{}", "<{}", ">{}", "{}?", "{}x", "{}k", "{},{}", "{}..{}",
    "{}^{}", "{}e{}", "{}½", "{}%", "${}", "{}€", "№{}–{}", "{} or {}", "{}–", "±{}", "{}+", "{}·{}", "{}'{}",
    "not {}", "{} thousand", "{}百", "{}万", "{}\u200b{}", "{}_{}",
)  # fmt: skip
COURTESIES = ("please ", "hi, ", "hey ", "ok ", "Could you ", "请", "麻烦你", "thanks! ", "")
ENDINGS = (" please", " thanks", ", thank you", " now", " for me", "吧", "谢谢", "!", ".", "")


def _wrap_in(frames: Sequence[str]) -> Change:
    def change(order: PlainOrder, rng: random.Random) -> str:
        return rng.choice(frames).replace("{who}", rng.choice(WHO)).replace("{}", order.text)

    return change


def _change_value(order: PlainOrder, rng: random.Random) -> str:
    """Put the reservation where a value stands: `add milk if it is cheap to groceries`."""
    frames = CHINESE_INSIDE if order.is_chinese else INSIDE
    words = [value for value in order.values.values() if not value.isdigit()]
    if not words:
        return _change_number(order, rng)
    changed, frame = rng.choice(words), rng.choice(frames)
    return order.fill(lambda value: frame.replace("{}", value) if value == changed else value)


def _change_number(order: PlainOrder, rng: random.Random) -> str:
    """Write a number so that it is not the one number that its digits are."""
    numbers = [value for value in order.values.values() if value.isdigit()]
    if not numbers:
        return _wrap_in(CONDITIONS)(order, rng)
    frame = rng.choice(NUMBERS)
    return order.fill(
        lambda value: frame.replace("{}", value, 1).replace("{}", str(rng.randint(1, 9))) if value in numbers else value
    )


def _pad(order: PlainOrder, rng: random.Random) -> str:
    """Put the reservation beyond what is read of a message."""
    filler = rng.choice((" ", "\n", " please", "。", ". "))
    return order.text + filler * 2_100 + rng.choice(("don't!", "said Bob", "- if he agrees", "别"))


def _two_sentences(order: PlainOrder, rng: random.Random) -> str:
    after = (
        "Wait, no.",
        "Bob wrote that.",
        "Or not.",
        "Never mind.",
        "That is what he wants.",
        "Ask me first.",
        "算了。",
        "Kidding",
    )
    before = (
        "This is a test.",
        "Bob wrote:",
        "Never do this:",
        "Example:",
        "What does this do:",
        "小王说：",
        "Not yet.",
    )
    mark = rng.choice((". ", "! ", "; ", ", ", " - ", "\n", "… ", "。"))
    if rng.random() < 0.5:
        return order.text + mark + rng.choice(after)
    return rng.choice(before) + " " + order.text


CHANGES: dict[str, Change] = {
    "negated": _wrap_in(NEGATIONS),
    "reported": _wrap_in(REPORTS),
    "asked about": _wrap_in(QUESTIONS),
    "on a condition": _wrap_in(CONDITIONS),
    "in Chinese": _wrap_in(CHINESE),
    "inside a value": _change_value,
    "marked": _wrap_in(MARKS),
    "another number": _change_number,
    "far behind": _pad,
    "two sentences": _two_sentences,
}


def disorders(orders: Sequence[PlainOrder], count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield messages, each with the kind of change that made it no order."""
    rng = random.Random(seed)
    kinds = list(CHANGES)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        message = CHANGES[kind](rng.choice(orders), rng)
        if rng.random() < 0.3:
            message = rng.choice(COURTESIES) + message + rng.choice(ENDINGS)
        if rng.random() < 0.2:
            message = rng.choice((str.upper, str.title, str.swapcase))(message)
        if rng.random() < 0.1:
            message = _with_typo(message, rng)
        yield kind, message


def _with_typo(message: str, rng: random.Random) -> str:
    at = rng.randrange(len(message))
    return message[:at] + message[at + 1 : at + 2] + message[at : at + 1] + message[at + 2 :]
