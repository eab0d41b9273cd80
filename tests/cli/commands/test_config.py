"""`toolyard config`: where each setting comes from, and the settings of the store as a file."""

import re
import tomllib
from pathlib import Path

from cli.process import request_json, run_toolyard, start_server

STORED = """
model = ["shop:small", "openai:gpt-5"]

[providers.shop]
base_url = "https://shop.example/v1"
api_key = "${SHOP_KEY}"
headers = { X-Team = "${TEAM}" }

[providers.openai]
api_key = "${OPENAI}"

[model_options."shop:small"]
temperature = 0.5

[limits]
run_seconds = 60.0

[tool.mail]
approval = "always"

[web_search]

[redact]
own = { staff = "EMP-[0-9]{6}" }

[divisions.food]

[tenants.acme]
tools = ["mail"]
limits = { run_tokens = 50 }

[tenants.acme.divisions.food]
prompt = "Sell bread."

[servers.mail]
url = "http://127.0.0.1:9/mcp"
headers = { X-Key = "${MAIL}" }

[servers.notes]
command = "no-such-program"
args = ["--fast"]
env = { NOTES_TOKEN = "${NOTES}" }
trust = true
"""
VARIABLES = {
    "SHOP_KEY": "the-key-of-the-shop",
    "TEAM": "the-team",
    "OPENAI": "the-key-of-openai",
    "MAIL": "the-key-of-mail",
    "NOTES": "the-key-of-notes",
}


def test_settings_are_imported_shown_with_their_sources_and_exported_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "stored.toml").write_text(STORED)
    missing = run_toolyard(tmp_path, "config", "import", "stored.toml", **{**VARIABLES, "TEAM": ""})
    assert missing.code == 0, missing.errors  # an empty variable is set
    assert "SHOP_KEY" in run_toolyard(tmp_path, "config", "import", "stored.toml").errors
    with start_server(tmp_path) as server:
        imported = run_toolyard(tmp_path, "config", "import", "stored.toml", **VARIABLES)
        assert imported.code == 0, imported.errors
        _, answer = request_json(f"{server.url}/settings")[:2]
        assert "beside" not in str(answer) and "toolyard.db.secret" in str(answer)
        served = run_toolyard(tmp_path, "config", "export")
    exported = run_toolyard(tmp_path, "config", "export")
    assert exported.out == served.out
    secrets = ("the-key", "the-team")
    assert not [secret for secret in secrets if secret in exported.out]
    assert tomllib.loads(exported.out) == {
        "model": ["shop:small", "openai:gpt-5"],
        "providers": {
            "shop": {
                "base_url": "https://shop.example/v1",
                "api_key": "${PROVIDERS_SHOP_API_KEY}",
                "headers": {"X-Team": "${PROVIDERS_SHOP_HEADERS_X_TEAM}"},
            },
            "openai": {"api_key": "${PROVIDERS_OPENAI_API_KEY}"},
        },
        "model_options": {"shop:small": {"temperature": 0.5}},
        "limits": {"run_seconds": 60.0},
        "tool": {"mail": {"approval": "always"}},
        "web_search": {},
        "redact": {"own": {"staff": "EMP-[0-9]{6}"}},
        "divisions": {"food": {}},
        "tenants": {
            "acme": {
                "tools": ["mail"],
                "limits": {"run_tokens": 50},
                "divisions": {"food": {"prompt": "Sell bread."}},
            }
        },
        "servers": {
            "mail": {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "${SERVERS_MAIL_HEADERS_X_KEY}"}},
            "notes": {
                "command": "no-such-program",
                "args": ["--fast"],
                "env": {"NOTES_TOKEN": "${SERVERS_NOTES_ENV_NOTES_TOKEN}"},
                "trust": True,
            },
        },
    }
    (tmp_path / "again.toml").write_text(exported.out)
    variables = [name[2:-1] for name in re.findall(r"\$\{\w+\}", exported.out)]
    other = run_toolyard(
        tmp_path,
        "config",
        "import",
        "again.toml",
        "--store",
        "sqlite:///other.db",
        **dict.fromkeys(variables, "another"),
    )
    assert other.code == 0, other.errors
    assert run_toolyard(tmp_path, "config", "export", "--store", "sqlite:///other.db").out == exported.out
    (tmp_path / "toolyard.toml").write_text('port = 9000\n[providers.openai]\napi_key = "of-the-file"\n')
    shown = run_toolyard(tmp_path, "config", "show", "--sources", TOOLYARD_GRACE_S="7")
    assert shown.code == 0, shown.errors
    sources = dict(line.split("  # ") for line in shown.out.splitlines() if "  # " in line)
    file = tmp_path / "toolyard.toml"
    assert sources["port = 9000"] == f"{file} line 1"
    assert sources["grace_s = 7.0"] == "TOOLYARD_GRACE_S"
    assert sources['host = "127.0.0.1"'] == "default"
    assert sources['model = ["shop:small", "openai:gpt-5"]'].startswith("the store, set by ")
    assert sources["run_seconds = 60.0"].startswith("the store, set by ")
    assert sources['base_url = "https://shop.example/v1"'].startswith("the store, set by ")
    assert f'[providers.openai]\napi_key = "***"  # {file} line 3' in shown.out
    assert "# providers.openai: the store has providers.openai too, which is not used" in shown.out
    assert tomllib.loads(shown.out)["providers"]["openai"]["api_key"] == "***"
    assert not [secret for secret in (*secrets, "of-the-file") if secret in shown.out]


def test_an_import_is_checked_as_the_file_is_and_stores_nothing_that_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "stored.toml"
    file.write_text('model = "shop:small"\nport = 5\n[providers.shop]\nwir = "chat"\n')
    refused = run_toolyard(tmp_path, "config", "import", "stored.toml")
    assert refused.code == 1
    assert f"{file} line 2: port is not a setting" in refused.errors
    assert f"{file} line 4: providers.shop.wir is not a setting; did you mean wire?" in refused.errors
    file.write_text('model = "shop:small"\n')
    refused = run_toolyard(tmp_path, "config", "import", "stored.toml")
    assert refused.code == 1 and "general.model" in refused.errors and "nothing was stored" in refused.errors
    assert run_toolyard(tmp_path, "config", "export").out == "\n"


REFUSED = (
    ('[providers.openai]\napi_key = "x"\n[model_options."openai:a"]\nseed = 2\n', "providers.openai is set in"),
    ('[servers.near]\nurl = "http://127.0.0.1:9/mcp"\n[model_options."openai:a"]\nseed = 2\n', "near"),
    ('model = "nobody:x"\n[servers.other]\nurl = "http://127.0.0.1:9/mcp"\n', "general.model"),
)
"""Files in which one entry is refused, and a part of the reason."""


def test_an_import_of_which_one_entry_is_refused_stores_none(tmp_path: Path) -> None:
    (tmp_path / "toolyard.toml").write_text(
        '[providers.openai]\napi_key = "of-the-file"\n[servers.near]\nurl = "http://127.0.0.1:9/mcp"\n'
    )

    def refuse_all() -> None:
        for content, reason in REFUSED:
            (tmp_path / "stored.toml").write_text(content)
            refused = run_toolyard(tmp_path, "config", "import", "stored.toml")
            assert refused.code == 1 and reason in refused.errors, refused.errors
            assert "nothing was stored" in refused.errors
            assert run_toolyard(tmp_path, "config", "export").out == "\n"

    refuse_all()
    with start_server(tmp_path):
        refuse_all()
        rules = '[tool.of_a_server]\napproval = "always"\n[servers.more]\nurl = "http://127.0.0.1:9/mcp"\n'
        (tmp_path / "stored.toml").write_text(rules)
        assert run_toolyard(tmp_path, "config", "import", "stored.toml").code == 0
