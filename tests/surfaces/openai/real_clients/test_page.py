"""The page on OpenAI clients is true: what it shows of each client gets an answer, or has the fields that it needs."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from real_servers import find_node, install_npm_package
from surfaces.openai.clients import add_to_groceries, added, list_exchange, serve_script
from surfaces.openai.real_clients.codex import Codex
from surfaces.openai.real_clients.processes import PYTHON, ROOT
from toolyard.testing import Turn, call, say

URL = "http://127.0.0.1:8080"
PAGE = (ROOT / "docs" / "how-to" / "openai-clients.md").read_text("utf-8")
SECTION = re.compile(r"^### (.+?)\n(?:(?!^#).)*?^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SNIPPETS = {name: (language, code) for name, language, code in SECTION.findall(PAGE)}
PYTHON_CLIENTS = {
    "langchain-openai": "LangChain",
    "pydantic-ai": "Pydantic AI",
    "openai-agents": "OpenAI Agents",
    "litellm": "LiteLLM",
}
"""The names of packages on the page. `test_real_clients.py` runs what it shows of them."""
ANSWER = "Milk is on the list."
RUN_S = 60


async def run_command(*command: str, folder: Path, **environment: str) -> str:
    """Return the output of a program that succeeds."""
    variables = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", **environment}
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=variables, stdout=-1, stderr=-1)
    out, errors = await asyncio.wait_for(process.communicate(), RUN_S)
    assert process.returncode == 0, (out.decode(), errors.decode())
    return out.decode()


def read_snippet(name: str, language: str, url: str = URL) -> str:
    """Return what the page shows of a client, with the address of a server."""
    shown_language, code = SNIPPETS[name]
    assert shown_language == language and URL in code
    return code.replace(URL, url)


def test_every_client_of_the_page_is_tested() -> None:
    others = {
        "OpenAI SDK for Python",
        "OpenAI SDK for JavaScript",
        "llm",
        "Codex",
        "Open WebUI",
        "LibreChat",
        "Continue",
    }
    assert set(SNIPPETS) == {*PYTHON_CLIENTS.values(), *others}
    assert set(re.findall(r"^### (.+)$", PAGE, re.MULTILINE)) == set(SNIPPETS)


async def test_the_python_client_of_openai_gets_an_answer(tmp_path: Path) -> None:
    async with serve_script([say(ANSWER)]) as served:
        code = read_snippet("OpenAI SDK for Python", "python", served.url)
        assert await run_command(sys.executable, "-c", code, folder=tmp_path) == f"{ANSWER}\n"


async def test_the_javascript_client_gets_an_answer(tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(install_npm_package("openai").parent)
    async with serve_script([say(ANSWER)]) as served:
        (tmp_path / "example.mjs").write_text(read_snippet("OpenAI SDK for JavaScript", "js", served.url))
        assert await run_command(find_node()[0], "example.mjs", folder=tmp_path) == f"{ANSWER}\n"


async def test_curl_gets_an_answer(tmp_path: Path) -> None:
    command, *_ = re.findall(r"^```\n(curl .*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    async with serve_script([say(ANSWER)]) as served:
        assert ANSWER in await run_command("sh", "-c", command.replace(URL, served.url), folder=tmp_path)


@pytest.mark.parametrize(
    ("section", "script"),
    [("WebSocket", [say(ANSWER)]), ("Long histories", [say("Added."), say("Milk was added."), say(ANSWER)])],
)
async def test_a_section_on_responses_gets_an_answer(section: str, script: list[Turn], tmp_path: Path) -> None:
    _, _, text = PAGE.partition(f"## {section}\n")
    code = text.partition("```python\n")[2].partition("```")[0]
    assert URL in code
    async with serve_script(script) as served:
        output = await run_command(sys.executable, "-c", code.replace(URL, served.url), folder=tmp_path)
        assert output == f"{ANSWER}\n"


async def test_llm_gets_an_answer(tmp_path: Path) -> None:
    (command,) = re.findall(r"`llm (-m .*?) \"(.*?)\"`", PAGE)
    async with serve_script([say(ANSWER)]) as served:
        (tmp_path / "extra-openai-models.yaml").write_text(read_snippet("llm", "yaml", served.url))
        words = [str(PYTHON.parent / "llm"), *command[0].split(), command[1]]
        assert (await run_command(*words, folder=tmp_path, LLM_USER_PATH=str(tmp_path))).strip() == ANSWER


async def test_codex_gets_an_answer(tmp_path: Path) -> None:
    async with serve_script([say(ANSWER)]) as served:
        codex = Codex(tmp_path, read_snippet("Codex", "toml", served.url))
        assert (await codex.ask("Add milk to groceries")).text == ANSWER


def test_open_webui_is_given_the_address_a_key_and_a_task_model_without_tools() -> None:
    """Its form only: the program itself is not run."""
    variables = dict(line.split("=", 1) for line in read_snippet("Open WebUI", "ini").split())
    assert variables == {
        "OPENAI_API_BASE_URL": f"{URL}/v1",
        "OPENAI_API_KEY": "none",
        "TASK_MODEL_EXTERNAL": "default@plain",
    }


def test_librechat_is_given_an_endpoint_of_its_form() -> None:
    """Its form only: the program itself is not run."""
    config = yaml.safe_load(read_snippet("LibreChat", "yaml"))
    assert config.keys() == {"version", "endpoints"}
    (endpoint,) = config["endpoints"]["custom"]
    assert endpoint.keys() == {"name", "apiKey", "baseURL", "models"}
    assert (endpoint["baseURL"], endpoint["models"]) == (f"{URL}/v1", {"default": ["default"], "fetch": True})


async def test_continue_reads_a_file_and_gets_an_answer_of_a_server_that_has_tools(tmp_path: Path) -> None:
    file, config = tmp_path / "milk.txt", tmp_path / "config.yaml"
    file.write_text("two litres")
    main = install_npm_package("@continuedev/cli") / "dist" / "cn.js"
    script = [call("Read", filepath=str(file)), call("add_to_groceries", item="milk"), say(ANSWER)]
    async with serve_script(script, [add_to_groceries]) as served:
        config.write_text(read_snippet("Continue", "yaml", served.url))
        words = [find_node()[0], str(main), "--config", str(config), "--print", "Is there enough milk?"]
        # It uses no network but ours: a proxy that does not exist stands before all other addresses.
        output = await run_command(
            *words,
            folder=tmp_path,
            HOME=str(tmp_path),
            CONTINUE_TELEMETRY_ENABLED="0",
            HTTPS_PROXY="http://127.0.0.1:9",
            NO_PROXY="127.0.0.1",
        )
    assert (output.strip(), added) == (ANSWER, ["milk"])
    read_call, read_result, *_ = list_exchange(served.model.requests[-1].history)
    assert read_call.startswith("Read[") and "two litres" in read_result
