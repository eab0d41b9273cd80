"""A configuration becomes what a yard is wired from."""

import dataclasses
import re
from pathlib import Path

import pytest

from surfaces.api_client import connect_api_client
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.core.errors import Misconfigured
from toolyard.core.settings.models.names import OFFLINE
from toolyard.core.settings.web_search import UserLocation
from toolyard.core.tools.definition import ProviderOptions, Tool
from toolyard.core.tools.web_search_rule import SearchRules
from toolyard.engine.access.authentication import hash_key
from toolyard.models.offline import Offline
from toolyard.server.config import Config, load, load_with_sources
from toolyard.server.wiring import build_model_settings, build_wiring
from toolyard.venues.function import as_tool

TOOLS = """
from toolyard import tool

@tool(timeout_s=5, roles={"staff"})
def count(item: str) -> int:
    "Count."
    return 3

class Erase:
    name = "erase"
    description = "Erase."
    parameters = {"type": "object", "properties": {}}
    def is_enabled(self): return True
    def requires_permission(self): return False
    def has_permission(self, role): return True
    def execute(self, call, context): return "erased"
"""


def load_config(folder: Path, toml: str = "", **environment: str) -> Config:
    (folder / "my_tools.py").write_text(TOOLS)
    file = folder / "toolyard.toml"
    file.write_text(f"tools = ['./my_tools.py']\nstore = 'memory:'\n{toml}")
    return load(file, environment, {})


def load_wiring(folder: Path, toml: str = "") -> Wiring:
    return build_wiring(load_config(folder, toml), folder)


def list_definitions(wiring: Wiring) -> dict[str, Tool]:
    return {tool.name: tool for tool in (as_tool(thing).definition for thing in wiring.tools)}


def test_the_rules_of_the_file_hold_for_functions_and_executors(tmp_path: Path) -> None:
    wiring = load_wiring(
        tmp_path, "[tool.count]\napproval = 'ask'\nroles = []\n[tool.erase]\napproval = 'always'\nenabled = false"
    )
    count, erase = list_definitions(wiring)["count"], list_definitions(wiring)["erase"]
    assert (count.approval, count.roles, count.timeout_s) == ("ask", frozenset(), 5.0)
    assert (erase.approval, erase.enabled) == ("always", False)


def test_the_file_says_what_a_tool_does_to_the_world(tmp_path: Path) -> None:
    wiring = load_wiring(
        tmp_path, "[tool.count]\nread_only = true\nopen_world = true\n[tool.erase]\ndestructive = true"
    )
    count, erase = list_definitions(wiring)["count"], list_definitions(wiring)["erase"]
    assert (count.read_only, count.destructive, count.open_world, count.idempotent) == (True, False, True, False)
    assert (erase.read_only, erase.destructive, erase.open_world) == (False, True, False)
    with pytest.raises(Misconfigured, match=r"read_only.* destructive"):
        load_wiring(tmp_path, "[tool.count]\nread_only = true\ndestructive = true")


def test_a_rule_for_a_tool_that_is_not_there_protects_nothing_and_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no tool named 'cuont'; did you mean count"):
        load_wiring(tmp_path, "[tool.cuont]\napproval = 'always'")
    with pytest.raises(Misconfigured, match="default_tools names 'cuont', which is not a tool; did you mean count"):
        load_wiring(tmp_path, "default_tools = ['cuont']")


@pytest.mark.parametrize(
    ("toml", "tools"),
    [("", None), ("default_tools = 'none'", frozenset[str]()), ("default_tools = ['count']", frozenset({"count"}))],
)
def test_what_a_new_conversation_may_use(tmp_path: Path, toml: str, tools: frozenset[str] | None) -> None:
    assert load_wiring(tmp_path, toml).default_settings.tools == tools


def test_everything_else_is_handed_on(tmp_path: Path) -> None:
    toml = """model = ["ollama:qwen3", "ollama:other"]
system_prompt = "Be short."
cors_origins = ["https://shop.example"]
trusted_proxies = ["10.0.0.0/8"]
[limits]
requests_per_minute = 7
turns_per_request = 3
[jwt]
algorithm = "HS256"
secret = "a secret of at least thirty-two bytes"
[[keys]]
name = "shop"
hash = "abc"
user = "shop"
trusted = true
"""
    wiring = load_wiring(tmp_path, toml)
    assert (wiring.model, wiring.allowed_models) == (
        ("ollama:qwen3", "ollama:other"),
        {"ollama:qwen3", "ollama:other"},
    )
    assert (wiring.requests_per_minute, wiring.limits.turns_per_request, wiring.system_prompt) == (7, 3, "Be short.")
    assert wiring.cors_origins == {"https://shop.example"} and wiring.verify is not None
    assert wiring.trusted_proxies == ("10.0.0.0/8",)
    assert [(key.name, key.trusted) for key in wiring.keys] == [("shop", True)]


def test_without_a_model_the_offline_planner_answers(tmp_path: Path) -> None:
    wiring = load_wiring(tmp_path)
    assert (wiring.model, wiring.allowed_models) == ((OFFLINE,), {OFFLINE})
    assert isinstance(build_model_settings(load_config(tmp_path), {}).make_model(OFFLINE), Offline)


def test_where_a_model_is_and_with_which_key(tmp_path: Path) -> None:
    toml = """[providers.openai]
api_key = "from the file"
base_url = "https://proxy.example/v1"
[providers.mine]
base_url = "http://10.0.0.1/v1"
headers = { x-team = "a" }
"""
    loaded_config = load_config(tmp_path, toml)
    endpoint = build_model_settings(loaded_config, {"OPENAI_API_KEY": "from outside"}).find_endpoint("openai:gpt")
    assert (endpoint.base_url, endpoint.model, endpoint.api_key) == ("https://proxy.example/v1", "gpt", "from the file")
    mine = build_model_settings(loaded_config, {}).find_endpoint("mine:big:1")
    assert (mine.base_url, mine.model, mine.headers) == ("http://10.0.0.1/v1", "big:1", {"x-team": "a"})
    missing = build_model_settings(loaded_config, {}).find_endpoint("groq:x")
    assert missing.key_variable == "GROQ_API_KEY"
    with pytest.raises(Misconfigured, match="set the environment variable GROQ_API_KEY"):
        build_model_settings(loaded_config, {}).make_model("groq:x")
    assert (
        build_model_settings(loaded_config, {"TOOLYARD_MODEL_KEY": "k", "OPENAI_API_KEY": "o"})
        .find_endpoint("http://h:1/v1#m")
        .api_key
        == "k"
    )
    for wrong in ("gpt", "openai:", "nobody:x", "http://h/v1"):
        with pytest.raises(Misconfigured):
            build_model_settings(loaded_config, {}).find_endpoint(wrong)


def test_what_is_set_for_searches_and_for_a_provider_s_tools_is_wired(tmp_path: Path) -> None:
    file = tmp_path / "toolyard.toml"
    file.write_text(
        'default_tools = ["web_search"]\n'
        '[web_search]\nfull_logging = true\nmax_uses = 3\nallowed_domains = ["docs.python.org/3"]\n'
        'user_location = { city = "Basel", country = "CH" }\ntools = ["brave_web_search"]\n'
        '[provider_tools]\ncode_execution = true\nfile_search = ["vs_1"]\n'
        '[tool.web_search]\nroles = ["staff"]\n'
    )
    wiring = build_wiring(load(file, {"HOME": str(tmp_path)}, {}), tmp_path)
    rules = wiring.web_search
    assert (rules.prefer, rules.custom_control, rules.full_logging) == ("auto", False, True)
    assert rules.tools == {"brave_web_search"}
    location = UserLocation(city="Basel", country="CH")
    options = ProviderOptions(max_uses=3, allowed_domains=("docs.python.org/3",), user_location=location)
    assert rules.options == options
    assert [(tool.name, tool.venue) for tool in wiring.provider_tools] == [
        ("code_execution", "provider"),
        ("file_search", "provider"),
    ]
    assert wiring.provider_tools[1].options == ProviderOptions(stores=("vs_1",))
    assert wiring.apply_rules(Tool(name="web_search", venue="provider")).roles == {"staff"}
    assert build_wiring(load(None, {"HOME": str(tmp_path)}, {}), tmp_path).web_search == SearchRules()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('allowed_domains = ["https://docs.python.org"]', "a domain such as docs.python.org, without https://"),
        ('user_location = { country = "Switzerland" }', "two capital letters, such as CH"),
        ('prefer = "google"', 'one of "auto", "duckduckgo", "mcp", "native", "off"'),
        ("max_uses = -1", "a whole number from 0"),
    ],
)
def test_what_a_search_cannot_be_held_to_is_told(line: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "toolyard.toml"
    file.write_text(f"[web_search]\n{line}\n")
    with pytest.raises(Misconfigured, match=re.escape(expected)):
        load(file, {"HOME": str(tmp_path)}, {})


def test_each_audited_part_of_the_configuration_has_a_hash_without_its_secrets(tmp_path: Path) -> None:
    server = "[servers.far]\nurl = 'https://far.example/mcp'\nheaders = { Authorization = 'Bearer %s' }\n"
    oidc = "[oidc]\nissuer = 'https://id.example'\nclient_id = 'toolyard'\nroles = { it = ['admin'] }\n"
    first = load_wiring(tmp_path, server % "one").config_hashes
    assert first == load_wiring(tmp_path, server % "two").config_hashes
    with_secret = oidc + "client_secret = 'one'\n"
    assert load_wiring(tmp_path, oidc).config_hashes == load_wiring(tmp_path, with_secret).config_hashes
    changes = [
        ("rules", "[tool.count]\napproval = 'ask'\n"),
        ("rules", "[trust]\nafter_untrusted = 'allow'\n"),
        ("rules", "[redact]\npatterns = ['jwt']\n"),
        ("prompt", "system_prompt = 'Be brief.'\n"),
        ("keys", f"[[keys]]\nname = 'me'\nuser = 'me'\nhash = '{'a' * 64}'\n"),
        ("identity_provider", oidc),
        ("servers", "[servers.near]\nurl = 'http://127.0.0.1:9/mcp'\n"),
        ("added_servers", "add_servers = 'off'\n"),
    ]
    for part, toml in changes:
        text = server % "one" + toml if toml.startswith("[") else toml + server % "one"
        changed = load_wiring(tmp_path, text).config_hashes
        assert [name for name in first if changed[name] != first[name]] == [part]


def test_each_setting_of_the_file_is_listed_with_its_line_and_without_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "toolyard.toml"
    lines = ['port = 9000', 'models = ["shop:*"]', "[providers.shop]", 'base_url = "https://ann:pw@shop.example/v1"',
             'api_key = "secret-key"']  # fmt: skip
    file.write_text("\n".join(lines))
    environment = {"HOME": str(tmp_path), "TOOLYARD_MODEL": "toolyard:offline,http://ann:pw@gpu.example/v1#qwen"}
    config, layers = load_with_sources(file, environment, {"host": "::1"})
    wiring = build_wiring(config, tmp_path, layers)
    assert {str(entry): (shown.value, shown.location) for entry, shown in wiring.configured_settings.items()} == {
        "general.model": (["toolyard:offline", "http://***@gpu.example/v1#qwen"], "TOOLYARD_MODEL"),
        "general.models": (["shop:*"], f"{file} line 2"),
        "providers.shop": ({"api_key": "***", "base_url": "https://***@shop.example/v1"}, f"{file} line 3"),
    }
    fixed = {setting.name: (setting.value, setting.location, setting.note) for setting in wiring.fixed_settings}
    assert fixed["port"] == ("9000", f"{file} line 1", "needs a restart")
    assert fixed["host"] == ('"::1"', "--host", "needs a restart")
    assert fixed["grace_s"] == ("5.0", "default", "needs a restart")
    assert "model" not in fixed and "secret-key" not in str(wiring.fixed_settings)


async def test_servers_and_keys_of_the_file_are_shown_with_their_lines_to_administrators_of_the_server(
    tmp_path: Path,
) -> None:
    file, pasted = tmp_path / "toolyard.toml", tmp_path / "mcp.json"
    pasted.write_text('{"mcpServers": {"far": {"url": "http://127.0.0.1:9/mcp"}}}')
    lines = ["mcp_json = 'mcp.json'", "[servers.near]", "url = 'http://127.0.0.1:9/mcp'"]
    for user, tenant in (("root", ""), ("tess", "acme")):
        lines += ["[[keys]]", f"name = '{user}'", f"user = '{user}'", f"hash = '{hash_key(user)}'"]
        lines += ["roles = ['admin']", f"tenant = '{tenant}'"]
    file.write_text("\n".join(lines))
    config, layers = load_with_sources(file, {"HOME": str(tmp_path)}, {})
    wiring = dataclasses.replace(build_wiring(config, tmp_path, layers), store="memory:")
    async with Yard.from_wiring(wiring) as yard, connect_api_client(yard) as http:
        root, tess = http.with_key("root"), http.with_key("tess")
        servers = {row["id"]: row["location"] for row in (await root.get("/servers"))["servers"]}
        assert servers == {"near": f"{file} line 2", "far": str(pasted)}
        keys = {row["name"]: row["location"] for row in (await root.get("/keys"))["keys"]}
        assert keys == {"root": f"{file} line 4", "tess": f"{file} line 10"}
        assert {row["location"] for row in (await tess.get("/servers"))["servers"]} == {""}
        assert [row["location"] for row in (await tess.get("/keys"))["keys"]] == [""]
