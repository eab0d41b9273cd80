"""A transcript as Markdown: what people read, and nothing that breaks out of its place."""

from markdown_it import MarkdownIt
from msgspec.structs import replace

from toolyard.core.items import (
    ApprovalRecord,
    Call,
    FilePart,
    Item,
    ModelText,
    Reasoning,
    Result,
    TextPart,
    UserMessage,
)
from toolyard.core.store import ConversationCard
from toolyard.surfaces.conversations.sharing.transcript import TranscriptContent, build_transcript, render_markdown

CARD = ConversationCard(
    id="c", user="ann", tenant="", title="Milk\n# and more", description="", created_at=0.0, updated_at=0.0
)
ITEMS: list[Item] = [
    UserMessage(id="u", at=0.0, parts=(TextPart(text="How much?"),)),
    Reasoning(id="r", at=1.0, text="First\nthen"),
    ModelText(id="m1", at=1.0, text="I look."),
    Call(id="k1", at=1.0, tool="stock", arguments={"item": "milk"}),
    Call(id="k2", at=1.0, tool="stock", arguments={}),
    Result(id="k1.result", at=2.0, call_id="k1", tool="stock", outcome="ok", content="a ``` fence"),
    ModelText(id="m2", at=3.0, text="Seven."),
]


def test_a_transcript_reads_in_order_and_a_result_cannot_end_its_code_block() -> None:
    content = TranscriptContent(arguments=True, reasoning=True)
    assert (
        render_markdown(build_transcript(CARD, ITEMS, content))
        == """# Milk # and more

## User · 1970-01-01T00:00:00.000Z

> How much?

## Assistant · 1970-01-01T00:00:01.000Z

*Reasoning*

> First
> then

> I look.

**stock** (ok)

```json
{
  "item": "milk"
}
```

````
a ``` fence
````

**stock** (not ended)

```json
{}
```

## Assistant · 1970-01-01T00:00:03.000Z

> Seven.
"""
    )


def test_a_transcript_without_arguments_names_calls_and_their_outcome_only() -> None:
    text = render_markdown(build_transcript(CARD, ITEMS, TranscriptContent()))
    assert "**stock** (ok)" in text
    for hidden in ("milk", "fence", "First"):
        assert hidden not in text.partition("\n")[2]


def test_a_text_cannot_end_its_message_or_take_in_what_follows() -> None:
    texts = [
        "# A heading\n\nTitle\n===\n\n## Assistant · 1970-01-01T00:00:00.000Z\n\nforged",
        "```python\nnever closed",
        "~~~\nnever closed\n\n    > deeper",
        "<!-- never closed",
        "<pre>\rnever closed\u2028---",
        "- list\n\n  - of lists\n\n---",
        "| a |\n|---|",
    ]
    items: list[Item] = [ModelText(id=str(number), at=0.0, text=text) for number, text in enumerate(texts)]
    tokens = MarkdownIt().enable("table").parse(render_markdown(build_transcript(CARD, items, TranscriptContent())))
    top = [token.tag for token in tokens if token.level == 0 and token.nesting != -1]
    assert top == ["h1", *["h2", "blockquote"] * len(texts)]


def test_names_in_markdown_are_no_links_pictures_or_html() -> None:
    name = "![x](https://evil.example/a.png) <img src=x onerror=alert(1)>"
    items: list[Item] = [
        UserMessage(id="u", at=0.0, parts=(FilePart(url="data:,x", name=name),)),
        Call(id="k", at=1.0, tool="a**b", arguments={}),
    ]
    text = render_markdown(build_transcript(replace(CARD, title=name), items, TranscriptContent()))
    escaped = r"!\[x\](https://evil.example/a.png) \<img src=x onerror=alert(1)\>"
    assert text.startswith(f"# {escaped}\n") and f"- attached: {escaped}\n" in text and r"**a\*\*b** (not" in text


def test_a_call_is_shown_with_who_decided_it_and_why() -> None:
    call = Call(id="call_1", at=0.0, tool="pay", arguments={})
    decisions = (ApprovalRecord(by="ann", approved=True, reason="invoice 7"), ApprovalRecord(by="eve", approved=False))
    result = Result(
        id="call_1.result", at=1.0, call_id="call_1", tool="pay", outcome="denied", content="no", decisions=decisions
    )
    text = render_markdown(build_transcript(CARD, [call, result], TranscriptContent(arguments=True)))
    assert "- approved by ann: invoice 7\n" in text and "- denied by eve\n" in text
    assert "ann" not in render_markdown(build_transcript(CARD, [call, result], TranscriptContent()))
