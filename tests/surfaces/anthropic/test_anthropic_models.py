"""`/v1/messages` with an Anthropic model behind it: what Anthropic wants back unchanged comes back unchanged.

The provider is a strict stand-in: it refuses a thought that it did not sign, and a fifth mark of its cache.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from anthropic import BadRequestError

from surfaces.anthropic.anthropic_clients import (
    HELLO,
    ServedMessages,
    answer_calls,
    define_tool,
    join_texts,
    list_calls,
    serve_model,
    serve_script,
    to_param,
)
from surfaces.api_client import Json
from surfaces.openai.clients import add_to_groceries
from toolyard.core.items import Reasoning
from toolyard.models.messages import Anthropic
from toolyard.testing import say
from wire.strict import Reply
from wire.strict_messages import (
    StrictMessages,
    asks,
    encode_block,
    encode_end,
    encode_start,
    encode_text,
    encode_thinking,
    encode_tool_use,
    says,
    signature_of,
)

PHOTO = define_tool("take_photo", of={"type": "string"})
MARK: Json = {"type": "ephemeral"}
LONG_MARK: Json = {"type": "ephemeral", "ttl": "1h"}
THINKS: Json = {"type": "enabled", "budget_tokens": 2_000}
both = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@asynccontextmanager
async def serve_provider(
    provider: StrictMessages, betas: frozenset[str] = frozenset(), **options: Json
) -> AsyncGenerator[ServedMessages, None]:
    """Serve a yard whose model is at this provider. Nothing that is sent there is refused."""
    async with provider.serving() as base_url:
        model = Anthropic(base_url=base_url, model="strict-1", api_key="k", betas=betas)
        async with serve_model(model, **options) as served:
            yield served
    assert provider.refusals == []


async def ask(served: ServedMessages, streamed: bool, messages: list[Json], **fields: Json) -> Json:
    fields = {"max_tokens": 4_000, **fields}
    return (await served.stream(messages, **fields))[1] if streamed else await served.create(messages, **fields)


def think(number: int) -> Reply:
    thought, text = encode_thinking(0, "Thought ", f"{number}"), encode_text(1, "Answer ", f"{number}")
    return Reply(packets=[encode_start(), thought, text, encode_end()])


@both
async def test_thinking_keeps_its_signatures_over_20_turns(streamed: bool) -> None:
    replies: list[Reply] = []
    for number in range(20):
        if number % 4 == 1:
            replies.append(asks(("take_photo", {"of": "me"}), text="Smile.", thinking=f"Photo {number}"))
        replies.append(think(number))
    provider = StrictMessages(*replies)
    messages: list[Json] = []
    async with serve_provider(provider) as served:
        for number in range(20):
            messages.append({"role": "user", "content": f"Question {number}"})
            answer = await ask(served, streamed, messages, thinking=THINKS, tools=[PHOTO])
            if list_calls(answer):
                messages = answer_calls(messages, answer, "a photo")
                answer = await ask(served, streamed, messages, thinking=THINKS, tools=[PHOTO])
            thought, text = answer.content
            assert (thought.thinking, thought.signature) == (f"Thought {number}", signature_of(f"Thought {number}"))
            assert text.text == f"Answer {number}"
            messages.append(to_param(answer))
    sent = [block for message in provider.requests[-1].messages for block in message.content]
    assert sum(type(block).__name__ == "ThinkingBlock" for block in sent) == 19 + 5
    assert len(provider.requests) == 25
    assert provider.requests[0].max_tokens == 4_000
    assert provider.requests[0].thinking is not None and provider.requests[0].thinking.budget_tokens == 2_000


@both
async def test_thoughts_without_text_and_redacted_ones_come_before_the_text(streamed: bool) -> None:
    signature: Json = {"type": "signature_delta", "signature": signature_of("")}
    silent = encode_block(0, {"type": "thinking", "thinking": "", "signature": ""}, signature)
    hidden = encode_block(1, {"type": "redacted_thinking", "data": "hidden_1"})
    reply = Reply(packets=[encode_start(), silent, hidden, encode_text(2, "Hi"), encode_end()])
    provider = StrictMessages(reply, says("Bye"))
    async with serve_provider(provider) as served:
        answer = await ask(served, streamed, HELLO, thinking={"type": "adaptive", "display": "omitted"})
        assert [block.type for block in answer.content] == ["thinking", "redacted_thinking", "text"]
        assert (answer.content[0].signature, answer.content[1].data) == (signature_of(""), "hidden_1")
        await ask(served, streamed, [*HELLO, to_param(answer), *HELLO], thinking={"type": "adaptive"})
    first, last = provider.requests
    assert first.thinking is not None and first.thinking.display == "omitted"
    kinds = [type(block).__name__ for block in last.messages[1].content]
    assert kinds == ["ThinkingBlock", "RedactedBlock", "TextBlock"]


async def test_marks_of_the_cache_pass_unchanged_and_none_is_added() -> None:
    provider = StrictMessages(asks(("take_photo", {"of": "me"})), says("Done"), says("Bye"))
    system: list[Json] = [{"type": "text", "text": "Be"}, {"type": "text", "text": "kind.", "cache_control": LONG_MARK}]
    tools = [{**PHOTO, "cache_control": MARK}]
    question: Json = {"role": "user", "content": [{"type": "text", "text": "Hello", "cache_control": MARK}]}
    async with serve_provider(provider) as served:
        answer = await served.create([question], system=system, tools=tools)
        *before, results = answer_calls([question], answer, "a photo")
        results["content"][0]["cache_control"] = MARK
        await served.create([*before, results], system=system, tools=tools)
    first, second = provider.requests[:2]
    for request in (first, second):
        assert request.system is not None and request.tools is not None
        assert [block.text for block in request.system][-2:] == ["Be", "kind."]
        assert [block.cache_control and block.cache_control.ttl for block in request.system][-2:] == [None, "1h"]
        assert request.tools[0].cache_control is not None
    marks = [
        [block for message in r.messages for block in message.content if _is_marked(block)] for r in (first, second)
    ]
    assert [[type(block).__name__ for block in found] for found in marks] == [
        ["TextBlock"],
        ["TextBlock", "ToolResult"],
    ]


def _is_marked(block: Json) -> bool:
    return getattr(block, "cache_control", None) is not None


async def test_marks_of_the_servers_own_are_set_where_the_client_sets_none_and_never_a_fifth() -> None:
    provider = StrictMessages(says("Hi"), says("Hi"))
    block = {"type": "text", "text": "Hello", "cache_control": MARK}
    async with serve_provider(provider) as served:
        await served.create(system="Be kind.")
        with pytest.raises(BadRequestError, match="cache_control: may be set 4 times at most, and is set 5 times"):
            await served.create([{"role": "user", "content": [block] * 5}])
        await served.create([{"role": "user", "content": [block] * 4}], system="Be kind.")
    assert [body.count(b'"cache_control"') for body in provider.bodies] == [2, 4]


async def test_what_was_sent_before_is_sent_again_with_the_same_bytes() -> None:
    """Ids of calls, too: the provider caches the beginning of a request."""
    provider = StrictMessages(asks(("take_photo", {"of": "me"})), says("Done"), says("Bye"))
    async with serve_provider(provider) as served:
        answer = await served.create(tools=[{**PHOTO, "cache_control": MARK}])
        messages = answer_calls(HELLO, answer, "a photo")
        answer = await served.create(messages, tools=[{**PHOTO, "cache_control": MARK}])
        messages += [to_param(answer), {"role": "user", "content": "Thanks"}]
        await served.create(messages, tools=[{**PHOTO, "cache_control": MARK}])
    second, third = (body[body.index(b'"messages":') :] for body in provider.bodies[1:])
    end = second.index(b']}],"tool_choice"')
    assert third.startswith(second[:end])


async def test_tools_that_are_loaded_later_and_references_to_them_pass_unchanged() -> None:
    search, late = define_tool("search_tools", query={"type": "string"}), {**PHOTO, "defer_loading": True}
    provider = StrictMessages(asks(("search_tools", {"query": "photo"})), says("Found."))
    async with serve_provider(provider) as served:
        answer = await served.create(tools=[search, late])
        *before, results = answer_calls(HELLO, answer, "")
        results["content"][0]["content"] = [{"type": "tool_reference", "tool_name": "take_photo"}]
        await served.create([*before, results], tools=[search, late])
    tools = provider.requests[-1].tools
    assert tools is not None and [tool.defer_loading for tool in tools] == [None, True]
    reference = provider.requests[-1].messages[-1].content[0]
    assert getattr(reference, "content", [None])[0].tool_name == "take_photo"


async def test_a_tool_that_anthropic_defines_and_the_client_runs_passes_unchanged() -> None:
    provider = StrictMessages(asks(("bash", {"command": "ls"})))
    async with serve_provider(provider) as served:
        answer = await served.create(tools=[{"type": "bash_20250124", "name": "bash"}])
    assert [(found.name, found.input) for found in list_calls(answer)] == [("bash", {"command": "ls"})]
    tools = provider.requests[0].tools
    assert tools is not None and (tools[0].type, tools[0].input_schema) == ("bash_20250124", None)


async def test_only_known_fields_of_anthropics_own_tools_are_passed_on() -> None:
    screen: Json = {"type": "computer_20250124", "name": "computer", "display_width_px": 800, "display_height_px": 600}
    async with serve_provider(StrictMessages()) as served:
        for tool, words in (
            ({"type": "bash_20250124", "name": "bash", "max_characters": 9}, "tools.0.max_characters: is unknown"),
            ({**screen, "display_number": "1"}, "tools.0.display_number: must be a number"),
            ({**screen, "mcp_server_name": "x"}, "tools.0.mcp_server_name: is unknown"),
            ({**screen, "strict": "yes"}, "tools.0.strict: must be true or false"),
            ({**screen, "allowed_callers": ["code"]}, "tools.0.allowed_callers: must be"),
        ):
            with pytest.raises(BadRequestError, match=words):
                await served.create(tools=[tool])


def build_search_reply() -> Reply:
    hit = {"type": "web_search_result", "url": "https://a.org", "title": "A", "encrypted_content": "enc_1"}
    result: Json = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [hit]}
    cited: Json = {
        "type": "web_search_result_location",
        "url": "https://a.org",
        "title": "A",
        "cited_text": "It is so.",
        "encrypted_index": "idx",
    }
    deltas: list[Json] = [{"type": "citations_delta", "citation": cited}, {"type": "text_delta", "text": "It is."}]
    return Reply(
        packets=[
            encode_start(),
            encode_text(0, "Let me look."),
            encode_tool_use(1, "srvtoolu_1", "web_search", '{"query": "x"}', kind="server_tool_use"),
            encode_block(2, result),
            encode_text(3, "So: "),
            encode_block(4, {"type": "text", "text": ""}, *deltas),
            encode_end(),
        ]
    )


@both
async def test_a_search_of_the_provider_keeps_its_order_its_results_and_its_citations(streamed: bool) -> None:
    provider = StrictMessages(build_search_reply(), says("Bye"))
    async with serve_provider(provider) as served:
        answer = await ask(served, streamed, HELLO)
        kinds = [block.type for block in answer.content]
        assert kinds == ["text", "server_tool_use", "web_search_tool_result", "text", "text"]
        assert join_texts(answer) == "Let me look.So: It is."
        assert answer.content[1].input == {"query": "x"}
        (citation,) = answer.content[-1].citations
        assert (citation.url, citation.encrypted_index) == ("https://a.org", "idx")
        await ask(served, streamed, [*HELLO, to_param(answer), *HELLO])
    sent = [type(block).__name__ for block in provider.requests[-1].messages[1].content]
    assert sent == ["TextBlock", "ServerToolUse", "WebSearchResult", "TextBlock", "TextBlock"]
    last = provider.requests[-1].messages[1].content[-1]
    assert getattr(last, "citations", None) is not None


@both
async def test_the_stop_sequence_that_ended_the_answer_is_told(streamed: bool) -> None:
    stopped = [encode_start(), encode_text(0, "One, two, "), encode_end("stop_sequence", "three")]
    provider = StrictMessages(Reply(packets=stopped), says("One"), Reply(packets=stopped))
    async with serve_provider(provider) as served:
        answers = [
            await ask(served, streamed, HELLO, **fields)
            for fields in ({"stop_sequences": ["three", "four"]}, {"stop_sequences": ["three"]}, {})
        ]
    assert [(answer.stop_reason, answer.stop_sequence) for answer in answers] == [
        ("stop_sequence", "three"),
        ("end_turn", None),
        ("end_turn", None),
    ], "the last one did not ask for it"


async def test_documents_keep_what_is_said_of_them_and_an_effort_is_passed() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "Grass is green."}
    document = {"type": "document", "source": source, "title": "T", "context": "c", "citations": {"enabled": True}}
    question: Json = {"role": "user", "content": [document, {"type": "text", "text": "What colour?"}]}
    provider = StrictMessages(says("Green."))
    async with serve_provider(provider) as served:
        await served.create([question], output_config={"effort": "max"})
    request = provider.requests[0]
    sent: Json = request.messages[0].content[0]
    assert (sent.title, sent.context, sent.citations.enabled) == ("T", "c", True)
    assert request.output_config is not None and request.output_config.effort == "max"


async def test_only_betas_of_the_configuration_are_passed_on() -> None:
    provider = StrictMessages(says("Hi"), says("Hi"))
    async with serve_provider(provider, frozenset({"known-2026-01-01"})) as served:
        headers = {"anthropic-beta": "other-2026-01-01, known-2026-01-01"}
        await served.create(extra_headers=headers)
        ignored = await served.client.messages.with_raw_response.create(
            model="default",
            max_tokens=100,
            messages=HELLO,
            extra_headers={"anthropic-beta": "other-2026-01-01"},
            extra_body={"context_management": {"edits": []}, "top_k": 3},
        )
    assert [headers.get("anthropic-beta") for headers in provider.headers] == ["known-2026-01-01", None]
    assert ignored.headers["toolyard-ignored"] == "top_k, context_management"


async def test_another_model_gets_what_it_can_and_refuses_the_rest_by_name() -> None:
    thought: Json = {"type": "thinking", "thinking": "Hm", "signature": "sig"}
    earlier: Json = {"role": "assistant", "content": [thought, {"type": "text", "text": "Hi", "cache_control": MARK}]}
    call: Json = {"type": "tool_use", "id": "toolu_1", "name": "take_photo", "input": {}}
    reference = {"type": "tool_reference", "tool_name": "take_photo"}
    result: Json = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [reference]}
    found: list[Json] = [*HELLO, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    async with serve_script([say("fine")], [add_to_groceries]) as served:
        await served.create([*HELLO, earlier, *HELLO], system=[{"type": "text", "text": "s", "cache_control": MARK}])
        for fields, name in (
            ({"tools": [{**PHOTO, "defer_loading": True}]}, "tools.0.defer_loading"),
            ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools.0.type"),
            ({"messages": found}, "messages.2.content.0.content.0"),
        ):
            with pytest.raises(BadRequestError, match=name):
                await served.create(**fields)
    history = served.model.requests[0].history
    assert not any(isinstance(item, Reasoning) for item in history)
    assert [getattr(item, "seal", None) for item in history] == [None] * 3
