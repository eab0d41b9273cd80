"""The configuration: what is read, what wins, what is refused and how it is told."""

import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from toolyard import Limits, Tool
from toolyard.core.errors import Misconfigured
from toolyard.core.settings.divisions import LimitOverrides, build_divisions
from toolyard.core.settings.limits import Budget
from toolyard.core.store import Key
from toolyard.server.config import (
    Config,
    LimitsConfig,
    ProviderToolsConfig,
    ToolRules,
    WebSearchConfig,
    apply_rules,
    find_config_file,
    find_data_directory,
    load,
    load_tools,
    show,
)
from toolyard.server.config.toml_lines import TomlLines
from toolyard.venues.function import FunctionTool, as_tool

ROOT = Path(__file__).parents[2]
HOME = {"HOME": "/home/mia"}
SECRET = "sk-do-not-tell-anybody-0123456789"
PAGE = (ROOT / "docs" / "reference" / "configuration.md").read_text("utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "toolyard.toml"


def load_text(file: Path, text: str, environment: Mapping[str, str] = HOME, **flags: object) -> Config:
    file.write_text(text, "utf-8")
    return load(file, environment, flags)


def list_complaints(file: Path, text: str, environment: Mapping[str, str] = HOME, **flags: object) -> list[str]:
    """What is said about a file, without its name."""
    with pytest.raises(Misconfigured) as caught:
        load_text(file, text, environment, **flags)
    return str(caught.value).replace(f"{file} ", "").splitlines()


# What is read


def test_without_a_file_everything_has_a_default(file: Path) -> None:
    config = load(None, HOME, {})
    assert (config.host, config.port, config.model_names, config.tools, config.cors_origins) == (
        "127.0.0.1",
        8080,
        (),
        (),
        (),
    )
    assert (config.default_tools, config.web_search, config.jwt, config.telemetry) == ("all", None, None, None)
    assert config.limits.run_limits == Limits() and config.limits.requests_per_minute == 30


def test_the_limits_of_a_run_are_the_cores_one_for_one() -> None:
    config_defaults = {field.name: field.default for field in msgspec.structs.fields(LimitsConfig)}
    assert config_defaults.pop("requests_per_minute") == 30
    assert config_defaults == {field.name: field.default for field in msgspec.structs.fields(Limits)}
    assert LimitsConfig(run_tokens=9, parallel_calls=2).run_limits == Limits(run_tokens=9, parallel_calls=2)
    assert set(LimitOverrides.__struct_fields__) == set(LimitsConfig.__struct_fields__)


def test_the_file_of_the_working_directory_is_found(file: Path) -> None:
    assert find_config_file(None) is None
    file.write_text("port = 1")
    assert find_config_file(None) == file and load(None, HOME, {}).port == 1
    assert find_config_file(Path("other.toml")) == file.parent / "other.toml"


def test_every_example_of_the_page_is_loaded(file: Path) -> None:
    environment = {**HOME, "SHOP_OPENAI_KEY": "k", "STOCK_TOKEN": "t", "SHOP_JWT_SECRET": "s" * 32, "OIDC_SECRET": "o"}
    assert len(EXAMPLES) == 3
    configs = [load_text(file, example, environment) for example in EXAMPLES]
    full_config = configs[1]
    assert full_config.model_names == ("openai:gpt-4o-mini", "ollama:qwen3")
    assert full_config.tools == ("household.tools", str(file.parent / "my_tools.py"))
    assert full_config.store == f"sqlite:///{file.parent}/toolyard.db"
    assert full_config.servers["stock"].headers == {"Authorization": "Bearer t"}
    assert full_config.servers["files"].cwd == str(file.parent)
    assert full_config.divisions["clothing"].limits == LimitOverrides(turns_per_request=20)
    assert full_config.jwt is not None and full_config.jwt.jwks_file == str(file.parent / "jwks.json")
    assert full_config.oidc is not None and full_config.oidc.client_secret == "o"
    assert full_config.oidc.roles == {"shop-ops": ("operator", "approver"), "it": ("admin",)}
    assert full_config.oidc.tenants == {"shop-ops": "shop", "it": ""}
    assert full_config.keys[0] == Key(
        name="shop-backend", hash="…", user="shop", roles=frozenset({"admin"}), tenant="shop",
        divisions=frozenset({"clothing"}), trusted=True, tools=frozenset({"search_*"}),
        models=frozenset({"openai:gpt-5*"}), origins=frozenset({"https://shop.example"}),
        not_before=1798761600, expires_at=1830297600,
    )  # fmt: skip


def test_the_page_names_every_setting() -> None:
    written = msgspec.convert(tomllib.loads(EXAMPLES[1]), dict[str, object])
    assert set(written) == {field.name for field in msgspec.structs.fields(Config)}
    tables = {
        "limits": LimitsConfig,
        "web_search": WebSearchConfig,
        "provider_tools": ProviderToolsConfig,
        "finding": Budget,
    }
    for name, kind in tables.items():
        assert set(msgspec.convert(written[name], dict[str, object])) == set(kind.__struct_fields__)
    assert [
        name for name in ToolRules.__struct_fields__ if not re.search(rf"^{name} = ", EXAMPLES[1], re.MULTILINE)
    ] == []


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfport = 5\r\n[limits]\r\nrun_secnds = 1\r\n")
    with pytest.raises(Misconfigured, match=r"line 3: limits\.run_secnds"):
        load(file, HOME, {})


def test_a_division_has_everybodys_limits_where_it_sets_none(file: Path) -> None:
    text = "[limits]\nrun_tokens = 5\nparallel_calls = 3\n[divisions.a.limits]\nrun_tokens = 7\n[divisions.b]\n"
    config = load_text(file, text)
    divisions = build_divisions(config.divisions, config.tenants, config.limits)
    assert divisions["", "a"].limits == Limits(run_tokens=7, parallel_calls=3)
    assert divisions["", "b"].limits == Limits(run_tokens=5, parallel_calls=3)


# What wins


def test_a_flag_wins_over_a_variable_and_that_over_the_file(file: Path) -> None:
    text = "port = 1\nhost = 'a'\nmodel = 'x:file'\n"
    environment = {**HOME, "TOOLYARD_PORT": "2", "TOOLYARD_HOST": "b"}
    config = load_text(file, text, environment, port=3)
    assert (config.port, config.host, config.model_names) == (3, "b", ("x:file",))


def test_a_flag_that_was_not_given_is_none_and_one_may_lead_into_a_table(file: Path) -> None:
    file.write_text("[limits]\nrun_seconds = 1\nrun_tokens = 2\n")
    config = load(
        file, HOME, {"port": None, "limits.run_seconds": "9.5", "cors_origins": ("https://a",), "tools": "m,n"}
    )
    assert (config.port, config.limits.run_seconds, config.limits.run_tokens) == (8080, 9.5, 2)
    assert config.cors_origins == ("https://a",) and config.tools == ("m", "n")


@pytest.mark.parametrize(
    ("variable", "text", "path", "value"),
    [
        ("MODEL", "openai:gpt-4o-mini", "model", "openai:gpt-4o-mini"),
        ("MODEL", "a:b, c:d", "model", ("a:b", "c:d")),
        ("MODEL", '["a:b", "c:d"]', "model", ("a:b", "c:d")),
        ("SYSTEM_PROMPT", "Be kind, [always]", "system_prompt", "Be kind, [always]"),
        ("DEFAULT_TOOLS", "none", "default_tools", "none"),
        ("DEFAULT_TOOLS", "search", "default_tools", ("search",)),
        ("DEFAULT_TOOLS", "[]", "default_tools", ()),
        ("CORS_ORIGINS", "https://a,https://b", "cors_origins", ("https://a", "https://b")),
        ("TRUSTED_PROXIES", "10.0.0.0/8,::1", "trusted_proxies", ("10.0.0.0/8", "::1")),
        ("LIMITS__RUN_SECONDS", "1e2", "limits.run_seconds", 100.0),
        ("LIMITS", '{"run_tokens": 4}', "limits.run_tokens", 4),
        ("WEB_SEARCH__FULL_LOGGING", "Yes", "web_search.full_logging", True),
        ("PROVIDERS__OPENAI__API_KEY", "${literal}", "providers.openai.api_key", "${literal}"),
        ("SERVERS__FILES__ENV__TOKEN__A", "t", "servers.files.env.token__a", "t"),
        ("TOOL__FILES__READ__APPROVAL", "ask", "tool.files__read.approval", "ask"),
        ("TOOL__DELETE__ROLES", "admin, ", "tool.delete.roles", frozenset({"admin"})),
        ("DIVISIONS__C__LIMITS__RUN_TOKENS", "6", "divisions.c.limits.run_tokens", 6),
        ("KEYS", '[{"name": "n", "hash": "h", "user": "u"}]', "keys.0.user", "u"),
        ("JWT__ALGORITHM", "RS256", "jwt.algorithm", "RS256"),
    ],
)  # fmt: skip
def test_a_variable_becomes_a_value_of_the_settings_type(
    file: Path, variable: str, text: str, path: str, value: object
) -> None:
    more = {"TOOLYARD_SERVERS__FILES__COMMAND": "npx", "TOOLYARD_JWT__JWKS_URL": "https://login.example/jwks"}
    needed = {name: text for name, text in more.items() if f"_{variable.split('__')[0]}__" in name}
    setting: object = load_text(file, "", {**HOME, **needed, f"TOOLYARD_{variable}": text})
    for name in path.split("."):
        setting = msgspec.to_builtins(setting)[int(name) if name.isdigit() else name]
    assert setting == msgspec.to_builtins(value)


def test_a_variable_adds_to_a_table_of_the_file_under_the_name_that_the_file_gives_it(file: Path) -> None:
    text = '[servers.My-Files]\ncommand = "npx"\nenv = { A = "1" }\n'
    variables = {"TOOLYARD_SERVERS__MY_FILES__TRUST": "on", "TOOLYARD_SERVERS__MY_FILES__ENV__B": "2"}
    servers = load_text(file, text, {**HOME, **variables}).servers
    assert list(servers) == ["My-Files"] and servers["My-Files"].trust
    assert servers["My-Files"].env == {"A": "1", "b": "2"}


def test_empty_variables_and_those_of_kubernetes_are_left_alone(file: Path) -> None:
    variables = {
        "TOOLYARD_HOST": "", "TOOLYARD_PORT": "tcp://10.0.0.1:80", "TOOLYARD_SERVICE_HOST": "10.0.0.1",
        "TOOLYARD_SERVICE_PORT_HTTP": "80", "TOOLYARD_PORT_80_TCP_ADDR": "10.0.0.1", "TOOLYARDX": "1",
    }  # fmt: skip
    config = load_text(file, "", {**HOME, **variables})
    assert (config.host, config.port) == ("127.0.0.1", 8080)


# Paths, stores and secrets


def test_paths_start_from_where_they_were_written(file: Path) -> None:
    folder = file.parent / "etc"
    folder.mkdir()
    text = 'tools = ["./a.py", "~/b.py", "c.d", "/e.py", "f.py"]\nstore = "sqlite:///x/y.db?synchronous=FULL"\n'
    config = load_text(folder / "toolyard.toml", text)
    assert config.tools == (f"{folder}/a.py", "/home/mia/b.py", "c.d", "/e.py", f"{folder}/f.py")
    assert config.store == f"sqlite:///{folder}/x/y.db?synchronous=FULL"
    config = load_text(folder / "toolyard.toml", text, {**HOME, "TOOLYARD_TOOLS": "./a.py"}, store="sqlite:///y.db")
    assert config.tools == (f"{file.parent}/a.py",) and config.store == f"sqlite:///{file.parent}/y.db"


@pytest.mark.parametrize(
    ("setting", "store"),
    [
        ("memory:", "memory:"),
        ("sqlite:////var/lib/a.db", "sqlite:////var/lib/a.db"),
        ("sqlite:///~/a.db", "sqlite:////home/mia/a.db"),
        ("postgresql://u:p@h/db", "postgresql://u:p@h/db"),
    ],
)
def test_a_store_is_given_in_whole(file: Path, setting: str, store: str) -> None:
    assert load_text(file, f"store = '{setting}'").store == store


@pytest.mark.parametrize(
    "store", ["", "x.db", "sqlite://x.db", "sqlite:///", "sqlite:///:memory:", "sqlite:///a#b", "mysql://x"]
)
def test_what_is_not_a_store_is_refused_with_what_is(file: Path, store: str) -> None:
    [complaint] = list_complaints(file, f"store = '{store}'")
    assert complaint.startswith("line 1: store must be ")


def test_synchronous_is_part_of_the_store(file: Path) -> None:
    assert (
        load_text(file, "synchronous = 'FULL'\nstore = 'sqlite:////a.db'").store == "sqlite:////a.db?synchronous=FULL"
    )
    assert load_text(file, "synchronous = 'FULL'\nstore = 'memory:'").store == "memory:"


@pytest.mark.parametrize(
    ("platform", "environment", "directory"),
    [
        ("linux", HOME, "/home/mia/.local/share/toolyard"),
        ("linux", {**HOME, "XDG_DATA_HOME": "/data"}, "/data/toolyard"),
        ("linux", {**HOME, "XDG_DATA_HOME": "data"}, "/home/mia/.local/share/toolyard"),
        ("darwin", {"HOME": "/Users/mia"}, "/Users/mia/Library/Application Support/toolyard"),
        ("win32", {"LOCALAPPDATA": "C:\\Users\\mia\\AppData\\Local"}, "C:/Users/mia/AppData/Local/toolyard"),
        ("win32", {"USERPROFILE": "C:\\Users\\mia"}, "C:/Users/mia/AppData/Local/toolyard"),
    ],
)
def test_data_is_kept_where_the_platform_keeps_it(platform: str, environment: dict[str, str], directory: str) -> None:
    assert find_data_directory(environment, platform).as_posix() == directory


def test_without_a_home_the_store_must_be_named(file: Path) -> None:
    with pytest.raises(Misconfigured, match="set HOME, or the store"):
        load_text(file, "", {})
    assert load_text(file, "store = 'memory:'", {}).store == "memory:"
    assert list_complaints(file, "store = 'memory:'\ntools = ['~/a.py']", {}) == [
        "line 2: tools begins with ~, and HOME is not set"
    ]


def test_variables_are_put_into_secrets_of_the_file(file: Path) -> None:
    text = (
        '[providers.a]\napi_key = "${KEY}"\nheaders = { X = "a ${KEY} ${KEY} $${KEY} $KEY" }\n'
        '[servers.s]\ncommand = "c"\nargs = ["${KEY}"]\n[servers.s.env]\nT = "${PEM}"\n'
    )
    config = load_text(file, text, {**HOME, "KEY": "${PEM}", "PEM": "-\nx\n-"})
    assert config.providers["a"].api_key == "${PEM}"
    assert config.providers["a"].headers == {"X": "a ${PEM} ${PEM} ${KEY} $KEY"}
    assert config.servers["s"].env == {"T": "-\nx\n-"} and config.servers["s"].args == ("${KEY}",)


def test_a_variable_that_is_missing_or_cannot_be_one_is_told_with_its_line(file: Path) -> None:
    text = (
        f'[providers.a]\napi_key = "${{GONE}}{SECRET}"\n[providers.b]\napi_key = "${{{SECRET}}}"\n'
        '[providers.c.headers]\nX = "${TWO_LINES}"\n'
    )
    assert list_complaints(file, text, {**HOME, "TWO_LINES": f"{SECRET}\r\nX: y"}) == [
        "line 2: providers.a.api_key needs the environment variable GONE, which is not set",
        "line 4: providers.b.api_key holds a ${…} that does not name a variable",
        "line 6: providers.c.headers.X must be one line",
    ]


# What is refused


def test_everything_that_is_wrong_is_told_at_once_in_order_with_file_and_line(file: Path) -> None:
    text = (
        "# a comment\nport = 99999\nprot = 1\n\n[limits]\nrun_secnds = 5\nrun_seconds = -1.5\nparallel_calls = 0\n"
        "port = 3\n[limit]\n[[keys]]\nname = 'a'\nhash = 'h'\nuser = 'u'\n[[keys]]\nname = 'b'\nuser = 5\n"
        "[quite.other]\n"
    )
    environment = {**HOME, "TOOLYARD_LIMITS__CALLS_PER_TUR": "1", "TOOLYARD_WEB_SEARCH__PREFER": "google"}
    messages = list_complaints(file, text, environment, host="")
    assert messages[:-4] == [
        "line 2: port must be a whole number from 0 to 65535, not 99999",
        "line 3: prot is not a setting; did you mean port?",
        "line 6: limits.run_secnds is not a setting; did you mean run_seconds?",
        "line 7: limits.run_seconds must be a number above 0, at most 1000000000, not -1.5",
        "line 8: limits.parallel_calls must be a whole number from 1 to 1000000000, not 0",
        "line 9: limits.port is not a setting; did you mean port (above the first table)?",
        "line 10: limit is not a setting; did you mean limits?",
        "line 15: keys needs hash",
        "line 17: keys.user must be a text that is not empty, not 5",
    ]
    assert messages[-4].startswith("line 18: quite is not a setting; the settings here are model, models, providers,")
    assert messages[-3:] == [
        "--host: host must be a text that is not empty, not an empty text",
        "TOOLYARD_LIMITS__CALLS_PER_TUR: limits.calls_per_tur is not a setting; did you mean calls_per_turn?",
        "TOOLYARD_WEB_SEARCH__PREFER: web_search.prefer must be "
        'one of "auto", "duckduckgo", "mcp", "native", "off", not this text',
    ]
    with pytest.raises(Misconfigured, match=f"^{re.escape(str(file))} line 2: "):
        load(file, HOME, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("port = '80'", "line 1: port must be a whole number from 0 to 65535, not this text"),
        ("port = true", "line 1: port must be a whole number from 0 to 65535, not true"),
        ("port = 80.0", "line 1: port must be a whole number from 0 to 65535, not 80.0"),
        ("port = -1", "line 1: port must be a whole number from 0 to 65535, not -1"),
        ("port = 1e300", "line 1: port must be a whole number from 0 to 65535, not so large a number"),
        ("port = 1979-05-27", "line 1: port must be a whole number from 0 to 65535, not a date or time"),
        ("host = ''", "line 1: host must be a text that is not empty, not an empty text"),
        ('host = "a\\u0000"', "line 1: host must be a text that is not empty, not this text"),
        ("model = []\nhost = ['a']", "line 2: host must be a text that is not empty, not this list"),
        ("model = 5", "line 1: model must be a text that is not empty or a list of texts that are not empty, not 5"),
        ("tools = 'a.py'", "line 1: tools must be a list of texts that are not empty, not this text"),
        ("[tools.x]", "line 1: tools must be a list of texts that are not empty, not a table"),
        (
            "default_tools = 'some'",
            'line 1: default_tools must be one of "all", "none" or a list of texts that are not empty, not this text',
        ),
        (
            "cors_origins = ['https://a/']",
            'line 1: cors_origins must be a list, each an origin such as "https://shop.example", or "*", not this list',
        ),
        ("title_model = 'openai:gpt-5-mini'", "line 1: title_model must be one of model or models"),
        (
            "trusted_proxies = ['10.0.0.1/8']",
            "line 1: trusted_proxies is wrong: '10.0.0.1/8' is not an IP address or a network such as \"10.0.0.0/8\"",
        ),
        (
            "trusted_proxies = ['::/0']",
            "line 1: trusted_proxies is wrong: '::/0' contains every address, so anybody could claim to be anybody",
        ),
        ("limits = 5", "line 1: limits must be a table, not 5"),
        (
            "[limits]\nrun_seconds = nan",
            "line 2: limits.run_seconds must be a number above 0, at most 1000000000, not nan",
        ),
        (
            "[limits]\nrun_seconds = inf",
            "line 2: limits.run_seconds must be a number above 0, at most 1000000000, not so large a number",
        ),
        ("[limits]\nrun_tokens = -1", "line 2: limits.run_tokens must be a whole number from 0 to 1000000000, not -1"),
        ("[web_search]\ncustom_control = 1", "line 2: web_search.custom_control must be true or false, not 1"),
        (
            "[tool.x]\napproval = 'maybe'",
            'line 2: tool.x.approval must be one of "always", "ask", "never", "other", not this text',
        ),
        (
            "[tool.x]\napproval = 'others'",
            'line 2: tool.x.approval must be one of "always", "ask", "never", "other", not this text; '
            "did you mean 'other'?",
        ),
        (
            "[redact]\npatterns = ['jwt', 'githubtoken']",
            'line 2: redact.patterns must be a list, each one of "api_key", "aws_key", "credit_card", "github_token", '
            '"google_key", "jwt", "private_key", "slack_token", not this list; did you mean \'github_token\'?',
        ),
        ("[tool.x]\ntimeout_s = 0", "line 2: tool.x.timeout_s must be a number above 0, at most 1000000000, not 0"),
        ("[tool.'a b']\naproval = 'ask'", 'line 2: tool."a b".aproval is not a setting; did you mean approval?'),
        (
            "[providers.a]\nbase_url = 'a.example'",
            "line 2: providers.a.base_url must be a URL that begins with http:// or https://, not this text",
        ),
        (
            "[providers.a]\nforward = ['users']",
            'line 2: providers.a.forward must be a list, each one of "metadata", "safety_identifier", "service_tier", '
            "\"user\", not this list; did you mean 'user'?",
        ),
        (
            "[model_options.a.extra]\nuser = 'ann'",
            "line 1: model_options.a.extra is not a setting; the settings here are max_tokens, temperature, top_p, "
            "stop, seed, thinking, parallel_tool_calls, window",
        ),
        (
            "[providers.a.headers]\n'X:' = 'a'",
            'line 2: providers.a.headers."X:": the name must be that of an HTTP header',
        ),
        ("[servers.a]\ntrust = true", "line 1: servers.a.command or url must be given"),
        ("[servers.a]\ncommand = 'c'\nurl = 'http://a'", "line 2: servers.a.command and url: give one of them"),
        (
            "[servers.a]\nurl = 'http://a'\nargs = ['x']",
            "line 3: servers.a.args is for a server with a command, and this one has a url",
        ),
        (
            "[servers.a]\ncommand = 'c'\nheaders.X = 'x'",
            "line 3: servers.a.headers are for a server with a url, and this one has a command",
        ),
        ("[servers.function]\ncommand = 'c'", "line 1: servers.function: the name must be a text other than function"),
        ("[keys]\nname = 'a'", "line 1: keys must be a list of tables, not a table"),
        ("keys = [\n{ name = 'a', hash = 'h', user = 'u' },\n5\n]", "line 1: keys must be a table, not 5"),
        (
            "keys = [{ name = 'a', hash = 'h', user = 'u' }, { name = 'a', hash = 'i', user = 'v' }]",
            "line 1: keys must have names of their own: 2 are named 'a'",
        ),
        ("[jwt]\nsecret = 'x'", "line 1: jwt needs algorithm"),
        ("[jwt]\nalgorithm = 'none'", 'line 2: jwt.algorithm must be one of "HS256", "RS256", not this text'),
        (
            "[jwt]\nalgorithm = 'HS256'",
            "line 2: jwt.algorithm HS256 needs a secret, and neither jwks_file nor jwks_url",
        ),
        (
            "[jwt]\nalgorithm = 'HS256'\nsecret = 'x'",
            "line 3: jwt.secret must be at least 32 bytes long, or it can be guessed",
        ),
        (
            "[jwt]\nalgorithm = 'RS256'\nsecret = 'x'",
            "line 2: jwt.algorithm RS256 needs a jwks_file or a jwks_url, one of them, and no secret",
        ),
        (
            "[jwt]\nalgorithm = 'RS256'\njwks_url = 'http://a'",
            "line 3: jwt.jwks_url must begin with https://, or anybody on the way could name the keys",
        ),
        ("[oidc]\nissuer = 'https://id.example'\nallow_everybody = true", "line 1: oidc needs client_id"),
        (
            "[oidc]\nissuer = 'http://id.example'\nclient_id = 'c'\nallow_everybody = true",
            "line 2: oidc.issuer must begin with https://, or anybody on the way could sign in as anybody",
        ),
        (
            "[oidc]\nissuer = 'https://id.example/?a=b'\nclient_id = 'c'\nallow_everybody = true",
            "line 2: oidc.issuer must not have a query or a fragment",
        ),
        (
            "[oidc]\nissuer = 'https://id.example'\nclient_id = 'c'\nscopes = ['profile']\nroles = { ops = ['admin'] }",
            "line 4: oidc.scopes must contain openid: without it the provider names no user",
        ),
        (
            "[oidc]\nissuer = 'https://id.example'\nclient_id = 'c'",
            "line 1: oidc.allow_everybody is not set, and nor are roles and tenants by group: nobody could sign in",
        ),
        ("[telemetry]", "line 1: telemetry needs otlp_endpoint"),
    ],
)
def test_a_wrong_value_is_told_with_what_would_be_right(file: Path, text: str, expected: str) -> None:
    assert list_complaints(file, text) == [expected]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"port = 1\nport = 2\n", "line 2: Cannot overwrite a value"),
        (b"[limits]\n[limits]\n", "line 2: Cannot declare"),
        (b"port = 1\nhost = 'a\n", "line 2: "),
        (b"port = 1\nhost = [\n\n", "line 2: "),
        (b"port = \x00", "line 1: "),
        (b"port = 1\nhost = 'a\x00b'", "line 2: "),
        (b"# fine\nhost = '\xff'", "line 2: this is not UTF-8"),
        (b"\xff\xfep\x00", "line 1: this is not UTF-8"),
        (b"port = " + b"9" * 5000, "holds a number that is too long"),
        (b"a = " + b"[" * 100_000, "is nested too deeply"),
        (b"#" * 10_000_000, "is larger than 1 MiB: that is not a configuration"),
        (b"\n".join(b"key%d = 1" % number for number in range(30)), "line 1: key0 is not a setting"),
        (b"k" * 100_000 + b" = 1", "line 1: kkkkkkkk"),
        (b'"a\\nb\\u001b[31m" = 1', 'line 1: "a\\nb\\u001b[31m" is not a setting'),
    ],
)  # fmt: skip
def test_what_is_no_toml_is_refused_in_a_few_lines(file: Path, content: bytes, expected: str) -> None:
    file.write_bytes(content)
    with pytest.raises(Misconfigured) as caught:
        load(file, HOME, {})
    message = str(caught.value)
    assert message.startswith(f"{file} {expected}")
    assert len(message) < 10_000 and len(message.splitlines()) <= 21


def test_of_very_many_mistakes_the_first_are_told_and_the_rest_counted(file: Path) -> None:
    assert list_complaints(file, "\n".join(f"key{number} = 1" for number in range(30)))[-1] == "… and 10 more"


def test_a_file_that_is_not_there_or_no_file_is_told(file: Path) -> None:
    with pytest.raises(Misconfigured, match=r"gone\.toml: there is no such file"):
        load(Path("gone.toml"), HOME, {})
    with pytest.raises(Misconfigured, match="cannot be read: Is a directory"):
        load(file.parent, HOME, {})
    with pytest.raises(Misconfigured, match="cannot be read"):
        load(Path("a\0b"), HOME, {})


SECRET_PLACES = [
    "model = {v}", "tools = {v}", "store = {v}", "port = {v}", "default_tools = {v}", "cors_origins = [{v}]",
    "[limits]\nrun_seconds = {v}", "[web_search]\nprefer = {v}", "[providers.a]\nbase_url = {v}\napi_key = 5",
    "[providers.a]\napi_key = [{v}]", "[providers.a]\napi_key = {v}\nbase_ur = {v}", "[servers.a]\nurl = {v}",
    "[servers.a]\nenv = {{ A = {v} }}", "[servers.a]\nheaders = {v}", "[servers.a]\nauth = {v}", "keys = {v}",
    "[[keys]]\nhash = {v}", "[jwt]\nsecret = {v}", "[jwt]\nalgorithm = {v}\nsecret = {v}", "api_key = {v}",
    "[jwt]\nalgorithm = 'RS256'\nsecret = {v}", "port = 1\nport = {v}", "host = {v} x", "tool.x.roles = {v}",
]  # fmt: skip


@pytest.mark.parametrize("template", SECRET_PLACES)
def test_no_text_of_the_file_is_repeated_wherever_a_secret_was_put(file: Path, template: str) -> None:
    text = template.format(v=f"'{SECRET}'") + "\n[unknown]\n"
    assert SECRET not in "".join(list_complaints(file, text))


@pytest.mark.parametrize(
    "name", ["PORT", "LIMITS", "JWT__ALGORITHM", "KEYS", "PROVIDERS__A", "API_KEY", "TOOLS__X", "LIMITS__X__Y"]
)
def test_no_text_of_a_variable_is_repeated(file: Path, name: str) -> None:
    [complaint, *_] = list_complaints(file, "", {**HOME, f"TOOLYARD_{name}": SECRET})
    assert complaint.startswith(f"TOOLYARD_{name}: ") and SECRET not in complaint


WILD = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["all", "auto", "${X}", "memory:"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "url", "limits", "a", "", "headers", "prefer"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@effort(deadline=None)
@given(st.dictionaries(st.sampled_from([*Config.__struct_fields__, "prot", ""]), WILD, max_size=4))
def test_whatever_is_set_to_whatever_becomes_a_configuration_or_one_error(flags: dict[str, object]) -> None:
    try:
        config = load(None, HOME, flags)
    except Misconfigured as error:
        assert str(error)
    else:
        assert tomllib.loads(show(config))


# The lines

PLAIN = st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True)
QUOTED = st.sampled_from(["", "a b", "x.y", "[z]", "#", "=", "'", '"', "é", "\\", "\t", '"""', "\n"])
VALUES = st.sampled_from(
    [
        "1", "'x'", '"x # y"', "1979-05-27 07:32:00", "[]", "{}", '""', "''", "'\\'", '"\\""', '""""""', "''''''",
        "[ # c\n  'a = 1', # ]\n  [1, 2],\n]", "[{ a = 1 },\n { a = 2 }]", "{ a = 1, b.c = [{ d = '}' }] }",
        "'''\n[table]\nkey = 1 # it's\n'''", '"""\n[[keys]]\nport = 1\n\\"""\n"""', '"""a"""""', "''''a'''''",
        '"""\\\n  x"""', '"""a""""', "'''a''''",
    ]
)  # fmt: skip
NOISE = st.sampled_from(["", "\n", "# [comment]\n", "  \t\n", "# key = '''\n", "\r\n"])


@st.composite
def keys(draw: st.DrawFn, number: int) -> tuple[str, str]:
    """A key that no other one is, and how it is written."""
    if draw(st.booleans()):
        key = draw(PLAIN) + f"-{number}"
        return key, draw(st.sampled_from([key, f"'{key}'", f'"{key}"']))
    key = draw(QUOTED) + f"-{number}"
    escaped = key.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\n", "\\n")
    return key, f'"{escaped}"' if "'" in key or "\n" in key or draw(st.booleans()) else f"'{key}'"


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, list[tuple[tuple[str | int, ...], str, int]]]:
    """A text, and for keys of it the path, how the last part is written, and the line."""
    text, key_lines = "", list[tuple[tuple[str | int, ...], str, int]]()
    table: tuple[str | int, ...] = ()
    arrays: dict[str, int] = {}
    for number in range(draw(st.integers(1, 12))):
        text += draw(NOISE)
        line = text.replace("\r\n", "\n").count("\n") + 1
        parts = [draw(keys(number * 10 + part)) for part in range(draw(st.integers(1, 3)))]
        path = tuple(key for key, _ in parts)
        written = draw(st.sampled_from([".", " . ", "\t."])).join(each for _, each in parts)
        match draw(st.sampled_from(["pair", "pair", "table", "array", "again"])):
            case "pair":
                text += draw(st.sampled_from(["", "  "])) + f"{written} = {draw(VALUES)}"
                text += draw(st.sampled_from(["\n", " # end\n"]))
                path = (*table, *path)
            case "table":
                text += f"[{written}]\n"
                table = path
            case "array":
                text += f"[[ {written} ]] # x\n"
                table = path = (*path, 0)
            case _:
                text += "[[again]]\n"
                arrays["again"] = arrays.get("again", -1) + 1
                table = path = ("again", arrays["again"])
                parts = [("again", "again")]
        key_lines.append((path, parts[-1][1], line))
    return text if draw(st.booleans()) else text.rstrip("\r\n"), key_lines


@effort(deadline=None)
@given(documents())
def test_the_line_that_is_found_is_the_one_that_holds_the_key(
    document: tuple[str, list[tuple[tuple[str | int, ...], str, int]]],
) -> None:
    text, key_lines = document
    tree: object = tomllib.loads(text)
    lines, toml_lines = text.replace("\r\n", "\n").split("\n"), TomlLines(text)
    for path, written, line in key_lines:
        assert toml_lines.find_line(path) == line and written in lines[line - 1]
        assert toml_lines.find_line((*path, "not there", 3)) == line
        assert toml_lines.contains(path) and not toml_lines.contains((*path, "not there"))
        get_at_path(tree, path)


def get_at_path(tree: object, path: tuple[str | int, ...]) -> object:
    """What tomllib has at a path; a KeyError or IndexError if it has nothing there."""
    for key in path:
        if isinstance(key, int):
            tree = msgspec.convert(tree, list[object])[key]
        else:
            tree = msgspec.convert(tree, dict[str, object])[key]
    return tree


@effort(deadline=None)
@given(documents(), st.integers(0, 200))
def test_every_key_that_tomllib_sees_is_on_the_line_that_is_found(
    document: tuple[str, list[tuple[tuple[str | int, ...], str, int]]], cut: int
) -> None:
    text = document[0][:cut]
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines, toml_lines = text.replace("\r\n", "\n").split("\n"), TomlLines(text)
    for key in tree:
        line = lines[toml_lines.find_line((key,)) - 1]
        assert key in line or '"' in line


def test_lines_of_tables_dotted_keys_arrays_and_what_is_inside_values() -> None:
    lines = TomlLines(
        "a.b = 1\na.c = { d = 1 }\n[x.y]\nz = [\n 1,\n]\n[x]\nw = 1\n[[k]]\nn = 1\n"
        "[k.s]\nt = 1\n[[k]]\nn = 2\n[[k.in]]\n[[k.in]]\nv = 1"
    )
    paths: list[tuple[tuple[str | int, ...], int]] = [
        (("a",), 1), (("a", "b"), 1), (("a", "c", "d"), 2), (("x",), 3), (("x", "y"), 3), (("x", "y", "z", 0), 4),
        (("x", "w"), 8), (("k",), 9), (("k", 0), 9), (("k", 0, "n"), 10), (("k", 0, "s", "t"), 12), (("k", 1), 13),
        (("k", 1, "n"), 14), (("k", 1, "in", 1), 16), (("k", 1, "in", 1, "v"), 17), (("k", 7), 9), (("q",), 1),
    ]  # fmt: skip
    assert [(path, lines.find_line(path)) for path, _ in paths] == paths


# What is shown


def test_what_is_shown_is_loaded_to_the_same_and_holds_no_secret(file: Path) -> None:
    variables = ("SHOP_OPENAI_KEY", "STOCK_TOKEN", "SHOP_JWT_SECRET", "OIDC_SECRET")
    environment = {**HOME, **dict.fromkeys(variables, SECRET)}
    full_config, hs256 = (load_text(file, example, environment) for example in EXAMPLES[1:])
    for config in (full_config, hs256):
        assert SECRET not in show(config)
    shown_config = load_text(file, show(full_config))
    assert shown_config.providers["openai"].api_key == "***" and shown_config.keys[0].hash == "***"
    assert shown_config.servers["stock"].headers == {"Authorization": "***"} and shown_config.servers["files"].env == {
        "LOG_LEVEL": "***"
    }
    names = ("providers", "servers", "keys", "postgres", "oidc")
    assert shown_config.oidc is not None and full_config.oidc is not None
    assert shown_config.oidc == msgspec.structs.replace(full_config.oidc, client_secret="***")
    same = {name: getattr(full_config, name) for name in names}
    assert msgspec.structs.replace(shown_config, **same) == full_config


def test_what_urls_carry_is_masked(file: Path) -> None:
    text = (
        f"model = 'https://u:{SECRET}@h/v1#m'\nstore = 'postgresql://u:{SECRET}@h/db?password={SECRET}'\n"
        f"[servers.a]\nurl = 'https://h/mcp?key={SECRET}&b={SECRET}'\n"
    )
    shown_text = show(load_text(file, text))
    assert SECRET not in shown_text
    assert 'url = "https://h/mcp?key=***&b=***"' in shown_text and 'model = "https://***@h/v1#m"' in shown_text


@effort(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20))
def test_any_text_is_shown_so_that_it_can_be_read_again(text: str) -> None:
    prompt = text.replace("://", ":")
    config = Config(system_prompt=prompt, tool={f"t{text}": ToolRules(roles=frozenset({f"r{prompt}"}))})
    tree = tomllib.loads(show(config))
    assert tree.get("system_prompt", "") == prompt
    assert tree["tool"] == {f"t{text}": {"roles": [f"r{prompt}"]}}


# The tools


def test_rules_take_the_place_of_a_tools_own_and_only_those_that_are_given() -> None:
    tool = Tool(name="t", description="d", venue="mcp", roles=frozenset({"a"}), approval="ask", retries=5)
    assert apply_rules(tool, ToolRules()) == tool
    rules = ToolRules(enabled=False, roles=frozenset(), approval="always", retries=0, max_result_bytes=9, client_s=1.5)
    expected = Tool(
        name="t",
        description="d",
        venue="mcp",
        enabled=False,
        approval="always",
        retries=0,
        max_result_bytes=9,
        client_s=1.5,
    )
    assert apply_rules(tool, rules) == expected
    assert set(ToolRules.__struct_fields__) < set(Tool.__struct_fields__)


EXECUTOR = """
class {name}:
    name, description, parameters = "{tool}", "d", {{"type": "object", "properties": {{}}}}
    def is_enabled(self): return True
    def requires_permission(self): return False
    def has_permission(self, role): return True
    def execute(self, call, context): return 1
"""


def list_names(tools: list[object]) -> list[str]:
    return [as_tool(tool).definition.name for tool in tools]


def test_the_tools_of_a_file_are_those_it_defines_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "beside_one.py").write_text(
        "from toolyard import tool\n@tool\ndef foreign() -> int:\n    'd'\n    return 1\n"
        + EXECUTOR.format(name="Shared", tool="shared") + "made_there = Shared()\n"
    )  # fmt: skip
    (tmp_path / "mine.py").write_text(
        "from toolyard import Tool, tool\nfrom beside_one import Shared, foreign, made_there\n"
        "@tool\ndef zebra(a: int) -> int:\n    'd'\n    return foreign()\n"
        + EXECUTOR.format(name="Whole", tool="whole") + EXECUTOR.format(name="Instanced", tool="instanced")
        + "def plain(a: int) -> int: return a\n"
        "one = Instanced()\nshared = Shared()\n"
        "@tool(name='ant')\nasync def other() -> int:\n    'd'\n    return 1\nalias = other\nname = execute = 5\n"
    )  # fmt: skip
    path, modules = sys.path[:], set(sys.modules)
    tools = load_tools(["./mine.py"], tmp_path)
    assert list_names(tools) == ["zebra", "whole", "instanced", "shared", "ant"]
    assert isinstance(tools[0], FunctionTool) and tools[0](a=1) == 1
    assert sys.path == path
    assert [name.split("_")[-1] for name in set(sys.modules) - modules if name.startswith("toolyard_tools")] == ["mine"]
    assert list_names(load_tools([str(tmp_path / "mine.py")], Path("/"))) == list_names(tools)


def test_a_list_named_tools_says_exactly_which(tmp_path: Path) -> None:
    (tmp_path / "listed.py").write_text(
        "from toolyard import tool\n@tool\ndef hidden() -> int:\n    'd'\n    return 1\n"
        "def plain(a: int) -> int:\n    'd'\n    return a\nTOOLS = [plain]\n"
    )
    assert list_names(load_tools(["listed.py"], tmp_path)) == ["plain"]


def test_a_module_beside_the_configuration_is_found_and_several_are_joined(tmp_path: Path) -> None:
    package = tmp_path / "household_of_the_tests"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tools.py").write_text(
        "from toolyard import tool\nfrom .words import D\n@tool(description=D)\ndef a() -> int: return 1\n"
    )
    (package / "words.py").write_text("D = 'd'")
    (tmp_path / "b.py").write_text("from toolyard import tool\n@tool\ndef b() -> int:\n    'd'\n    return 1\n")
    path = sys.path[:]
    assert list_names(load_tools(["household_of_the_tests.tools", "./b.py"], tmp_path)) == ["a", "b"]
    assert sys.path == path and load_tools([], tmp_path) == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "x = 1",
            "tools './bad.py' defines no tool: decorate a typed function with @tool, or list the tools in TOOLS",
        ),
        (
            "TOOLS = []",
            "tools './bad.py' defines no tool: decorate a typed function with @tool, or list the tools in TOOLS",
        ),
        ("TOOLS = 5", "tools './bad.py': its TOOLS must be a list"),
        ("x = 1\ny = (", "tools './bad.py' cannot be imported: SyntaxError: '(' was never closed (bad.py line 2)"),
        ("\n1 / 0", "tools './bad.py' cannot be imported: ZeroDivisionError: division by zero (bad.py line 2)"),
        (
            "import no_such_thing",
            "tools './bad.py' cannot be imported: ModuleNotFoundError: No module named 'no_such_thing' (bad.py line 1)",
        ),
        ("raise SystemExit(3)", "tools './bad.py' cannot be imported: SystemExit: 3 (bad.py line 1)"),
        (
            "class A:\n    name = 'a'\n    def __init__(self, x): pass\n    def execute(self): pass",
            "tools './bad.py': the class A needs arguments: make an instance of it",
        ),
    ],
)
def test_a_file_without_usable_tools_is_told_and_leaves_nothing_behind(
    tmp_path: Path, code: str, expected: str
) -> None:
    (tmp_path / "bad.py").write_text(code)
    path = sys.path[:]
    with pytest.raises(Misconfigured) as caught:
        load_tools(["./bad.py"], tmp_path)
    assert str(caught.value) == expected
    assert sys.path == path


def test_a_wrong_tool_is_told_in_the_words_of_the_tool(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("from toolyard import tool\n\n@tool\ndef f(a: 5) -> int:\n    'd'\n    return 1\n")
    with pytest.raises(Misconfigured, match=r"cannot be imported: .*\(bad.py line [34]\)"):
        load_tools(["./bad.py"], tmp_path)


def test_every_source_that_cannot_be_had_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        load_tools(["./gone.py", "no_such_module.tools", "./", "a\0.py", ".."], tmp_path)
    messages = str(caught.value).splitlines()
    assert messages[0] == f"tools './gone.py': there is no file {tmp_path / 'gone.py'}"
    assert (
        messages[1]
        == "tools 'no_such_module.tools' cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"
    )
    assert len(messages) == 5 and all("tools " in message for message in messages)


def test_programs_are_off_unless_they_are_enabled_and_a_division_has_its_own_limits(tmp_path: Path) -> None:
    file = tmp_path / "toolyard.toml"
    assert not load_text(file, "").code.enabled
    text = "[code]\nenabled = true\n[limits]\nprogram_calls = 50\n[divisions.north.limits]\nprogram_seconds = 2\n"
    config = load_text(file, text)
    assert config.code.enabled
    north = config.divisions["north"].limits.apply_to(config.limits).run_limits
    assert (north.program_calls, north.program_seconds) == (50, 2.0)


# Budgets and prices

BUDGET = '[budgets.team]\namount = 5.0\ntime_zone = "UTC"\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[budgets.team]\namount = -1\n", "line 2: budgets.team.amount must be a number above 0"),
        ("[budgets.team]\namount = 5\n", "budgets.team.time_zone is missing: a month begins at midnight somewhere"),
        (
            '[budgets.team]\namount = 5.0\ntime_zone = "Mars/Olympus"\n',
            "team.time_zone is not a time zone",
        ),
        (f'{BUDGET}currency = "dollars"\n', "line 4: budgets.team.currency must be three letters such as USD"),
        (f'{BUDGET}currency = "XYZ"\n', "line 4: budgets.team.currency is one in which no model has a price"),
        (
            f"{BUDGET}[prices.a]\ninput = 1\noutput = 1\n[prices.b]\ninput = 1\noutput = 1\ncurrency = 'EUR'\n",
            "budgets.team.currency is USD, and the price of 'b' is in EUR: use one currency",
        ),
        (f'{BUDGET}window = "year"\n', 'line 4: budgets.team.window must be one of "day", "month", "total"'),
        (f'{BUDGET}only = ["ana"]\n', "line 4: budgets.team.only is for a scope with names"),
        (f"{BUDGET}ammount = 5\n", "line 4: budgets.team.ammount is not a setting; did you mean amount?"),
        ("[budgets.team]\n", "budgets.team needs amount"),
        ("[prices.a]\ninput = -1\noutput = 1\n", "line 2: prices.a.input must be a number from 0"),
        (
            "[prices.a]\ninput = 1\noutput = 1\ntiers = [{above = 9, input = 1, output = 1},"
            " {above = 5, input = 1, output = 1}]\n",
            "line 4: prices.a.tiers must be in the order of `above`",
        ),
        ("[tool.x]\nprice = -1\n", "line 2: tool.x.price must be a number from 0"),
        ("reserve_output_tokens = 0\n", "line 1: reserve_output_tokens must be a whole number from 1"),
    ],
)
def test_a_wrong_budget_or_price_is_told_at_its_field(file: Path, text: str, complaint: str) -> None:
    complaints = list_complaints(file, text)
    assert len(complaints) == 1
    assert complaint in complaints[0]


def test_a_budget_in_another_currency_is_accepted_if_all_prices_are_in_it(file: Path) -> None:
    text = f"{BUDGET}currency = 'EUR'\n[prices.a]\ninput = 1\noutput = 1\ncurrency = 'EUR'\n"
    assert load_text(file, text).budgets["team"].micros == 5_000_000
