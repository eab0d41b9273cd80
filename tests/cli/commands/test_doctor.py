"""`toolyard doctor`: one line for each thing, and what to do about it."""

import json
import socket
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cli.process import run_toolyard, start_server

BAD = """
model = ["openai:gpt-4o-mini", "http://127.0.0.1:9/v1#none", "nonsense"]
tools = ["./broken.py"]
store = "sqlite:////proc/none/toolyard.db"
host = "0.0.0.0"
port = {port}
"""


def parse_findings(out: str) -> dict[str, str]:
    """The mark and the words of each finding."""
    return {line.split()[1]: line for line in out.splitlines() if line[:1] in "✓✗!"}


def test_a_set_up_that_works_is_well(tmp_path: Path) -> None:
    done = run_toolyard(tmp_path, "doctor", "--port", "0")
    assert done.code == 0, done.out
    assert set(parse_findings(done.out)) == {
        "python",
        "packages",
        "config",
        "tools",
        "model",
        "store",
        "port",
        "callers",
    }
    assert "✗" not in done.out and "All is well" in done.out


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nowhere_to_be_found\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (tmp_path / "toolyard.toml").write_text(BAD.format(port=taken.getsockname()[1]))
        done = run_toolyard(tmp_path, "doctor")
    assert done.code == 1
    failures = [line for line in done.out.splitlines() if line.startswith("✗")]
    assert [line.split()[1] for line in failures] == ["tools", "model", "model", "model", "store", "port"]
    assert "No module named 'nowhere_to_be_found'" in failures[0]
    assert "set the environment variable OPENAI_API_KEY" in failures[1]
    assert "http://127.0.0.1:9/v1 cannot be reached" in failures[2]
    assert "'nonsense' is not a model" in failures[3]


WITH_CREDENTIALS = """
model = "http://mallory:p%40ss@w0rd-hunter2@127.0.0.1:9/v1?api_key=hunter2#some-model"
[servers.docs]
url = "https://mallory:hunter2@127.0.0.1:9/mcp?key=hunter2&plain=hunter2"
[servers.files]
command = "python3"
args = ["-c", "pass", "--database", "postgresql://mallory:hunter2@db/files", "--api-key=hunter2"]
"""


def test_no_credentials_of_an_address_are_printed(tmp_path: Path) -> None:
    (tmp_path / "toolyard.toml").write_text(WITH_CREDENTIALS)
    for command in ("doctor", "models"):
        done = run_toolyard(tmp_path, command)
        assert "127.0.0.1:9/v1" in done.out, done.out
        assert "hunter2" not in done.out and "mallory" not in done.out
    assert "https://***@127.0.0.1:9/mcp?key=***" in run_toolyard(tmp_path, "doctor").out


def test_doctor_warns_of_a_package_that_is_run_in_its_latest_version(tmp_path: Path) -> None:
    runner = tmp_path / "uvx"
    runner.write_text("#!/bin/sh\n")
    runner.chmod(0o755)
    server = f"command = 'uvx'\nenv = {{ PATH = '{tmp_path}' }}\nargs = "
    config = f"[servers.time]\n{server}['--from', 'git+https://mallory:hunter2@git.example/time', 'time']\n"
    (tmp_path / "toolyard.toml").write_text(config)
    out = run_toolyard(tmp_path, "doctor", "--port", "0").out
    assert "time runs 'git+https://***@git.example/time' in its latest version: pin a version" in out
    (tmp_path / "toolyard.toml").write_text(f"[servers.time]\n{server}['mcp-server-time@1.2']\n")
    assert "its latest version" not in run_toolyard(tmp_path, "doctor", "--port", "0").out


def test_a_wrong_file_is_told_with_all_its_errors(tmp_path: Path) -> None:
    (tmp_path / "toolyard.toml").write_text("prot = 1\nhost = 2\n")
    done = run_toolyard(tmp_path, "doctor")
    assert done.code == 1
    assert "line 1: prot is not a setting" in done.out and "line 2: host must be" in done.out


def test_others_could_come_in_without_a_key(tmp_path: Path) -> None:
    done = run_toolyard(tmp_path, "doctor", "--host", "0.0.0.0", "--port", "0")
    assert done.code == 1
    assert parse_findings(done.out)["callers"].startswith("✗ callers   no key, and 0.0.0.0 can be reached by others")


def test_a_running_server_is_no_fault(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        done = run_toolyard(tmp_path, "doctor", "--port", server.url.rpartition(":")[2])
    assert done.code == 0, done.out
    assert f"is served at {server.url}" in parse_findings(done.out)["store"]
    assert f"the server's own, process {server.process.pid}" in parse_findings(done.out)["port"]


def test_a_model_is_looked_up_in_the_list_of_its_provider(tmp_path: Path) -> None:
    listed = {"/v1/models": {"object": "list", "data": [{"id": "gpt-4o-mini"}, {"id": "qwen3:latest"}]}}
    with serve_provider(listed) as address:
        known_model = run_toolyard(tmp_path, "doctor", "--port", "0", "--model", f"{address}/v1#qwen3")
        misspelt = run_toolyard(tmp_path, "doctor", "--port", "0", "--model", f"{address}/v1#gpt-4o-mni")
    assert (
        known_model.code == 0
        and "has the model" in parse_findings(known_model.out)["model"]
        and "All is well" in known_model.out
    )
    finding = parse_findings(misspelt.out)["model"]
    assert misspelt.code == 0 and finding.startswith("! model") and "check the lines marked with !" in misspelt.out
    assert "does not list the model 'gpt-4o-mni'; it has gpt-4o-mini" in finding


def test_an_address_without_its_v1_is_told_where_the_api_is(tmp_path: Path) -> None:
    with serve_provider({"/v1/models": {"data": []}}) as address:
        done = run_toolyard(tmp_path, "doctor", "--port", "0", "--model", f"{address}#m")
    assert done.code == 1
    assert f"(404), but there is one at {address}/v1" in parse_findings(done.out)["model"]


def test_a_provider_without_a_list_is_doubtful(tmp_path: Path) -> None:
    with serve_provider({}) as address:
        done = run_toolyard(tmp_path, "doctor", "--port", "0", "--model", f"{address}#m")
    assert done.code == 0
    assert (
        parse_findings(done.out)["model"].startswith("! model")
        and "Most end in /v1" in parse_findings(done.out)["model"]
    )


@contextmanager
def serve_provider(answers: Mapping[str, object]) -> Generator[str]:
    """A provider that has these JSON documents and nothing else; gives its address without a path."""

    class ProviderHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in answers else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answers.get(self.path)).encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), ProviderHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


FOUR_EYES = """
from toolyard import tool

@tool(approval="other")
def pay(amount: int) -> str:
    "Pay an amount."
    return "paid"

@tool(approval="ask", approvers=["user:ann", "user:bob"], approvals=3)
def sell(item: str) -> str:
    "Sell an item."
    return "sold"

@tool(approval="ask", approvers=["user:ann", "role:board"], approvals=3)
def buy(item: str) -> str:
    "Buy an item."
    return "bought"
"""


def find_approval_warnings(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("! approval")]


def test_calls_that_nobody_could_approve_are_doubtful(tmp_path: Path) -> None:
    (tmp_path / "bank.py").write_text(FOUR_EYES)
    servers = f"[servers.shop]\ncommand = '{sys.executable}'\n"
    (tmp_path / "toolyard.toml").write_text(f'tools = ["./bank.py"]\n{servers}[tool.shop_refund]\napproval = "other"\n')
    done = run_toolyard(tmp_path, "doctor", "--port", "0")
    assert done.code == 0, done.out
    nobody = 'asks somebody else (approval = "other"), and without keys or an identity provider nobody can decide'
    assert find_approval_warnings(done.out) == [
        f"! approval  pay {nobody}",
        "! approval  sell needs 3 approvals, and only 2 users may approve it: user:ann, user:bob",
        f"! approval  shop_refund {nobody}",
    ]
    assert run_toolyard(tmp_path, "keys", "add", "me", "--user", "me", "--role", "admin").code == 0
    with_key = run_toolyard(tmp_path, "doctor", "--port", "0").out
    assert [line.split()[2] for line in find_approval_warnings(with_key)] == ["sell"]


def test_signing_in_without_https_is_doubtful(tmp_path: Path) -> None:
    assert "sessions" not in parse_findings(run_toolyard(tmp_path, "doctor", "--port", "0").out)
    (tmp_path / "toolyard.toml").write_text("[sessions]\nallow_http = true\n")
    done = run_toolyard(tmp_path, "doctor", "--port", "0")
    assert done.code == 0 and "check the lines marked with !" in done.out
    assert parse_findings(done.out)["sessions"].startswith("! sessions  allow_http lets keys and sessions cross")


def test_an_identity_provider_that_cannot_be_discovered_is_doubtful(tmp_path: Path) -> None:
    def examine(issuer: str) -> str:
        (tmp_path / "toolyard.toml").write_text(
            f'[oidc]\nissuer = "{issuer}"\nclient_id = "toolyard"\nallow_everybody = true\n'
        )
        done = run_toolyard(tmp_path, "doctor", "--port", "0")
        assert done.code == 0, done.out
        return parse_findings(done.out)["oidc"]

    documents: dict[str, object] = {}
    with serve_provider(documents) as issuer:
        missing = examine(issuer)
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        document = {"issuer": issuer, **{name: f"{issuer}/{name}" for name in names}}
        documents["/.well-known/openid-configuration"] = document
        assert examine(issuer) == f"✓ oidc      {issuer} can be discovered"
        document["issuer"] = "https://other.example"
        assert "names another issuer" in examine(issuer)
    assert missing.startswith(f"! oidc      nobody can sign in at {issuer}: ") and "404" in missing
    assert examine(issuer).startswith(f"! oidc      nobody can sign in at {issuer}: ")
