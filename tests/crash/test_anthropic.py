"""Kill -9 in the middle of a request of Anthropic's client, with its own retries: one effect, and the retry joins."""

from pathlib import Path
from typing import Any

import anthropic
import pytest

from crash.test_openai import serve

BODY: Any = {"model": "default", "max_tokens": 100, "messages": [{"role": "user", "content": "Charge me"}]}
ANSWER = "The outcome is unknown."


def open_client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key="unused", timeout=60)


def join_texts(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def test_a_killed_server_charges_once_and_the_clients_own_retry_joins_the_run(tmp_path: Path) -> None:
    with serve(tmp_path) as (server, url), open_client(url) as client:
        assert join_texts(client.messages.create(**BODY)) == ANSWER
        assert ((tmp_path / "effects").read_text(), server.kills) == ("charged 5\n", 1)


def test_a_stream_that_a_kill_has_cut_off_goes_on_with_the_same_request(tmp_path: Path) -> None:
    retry = {"x-stainless-retry-count": "1"}  # a stream that has begun is not repeated by the client itself
    with serve(tmp_path) as (server, url), open_client(url) as client:
        with pytest.raises(Exception, match=r"peer closed|incomplete|disconnect|Connection"):
            list(client.messages.create(**BODY, stream=True))
        with client.messages.stream(**BODY, extra_headers=retry) as stream:
            message = stream.get_final_message()
        assert join_texts(message) == ANSWER
        assert [block.type for block in message.content] == ["mcp_tool_use", "mcp_tool_result", "text"]
        assert ((tmp_path / "effects").read_text(), server.kills) == ("charged 5\n", 1)
