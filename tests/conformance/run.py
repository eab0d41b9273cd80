"""`make conformance`: all of the official suite, through Toolyard to servers of both eras, and what its Inspector sees.

Ends with 1 if any scenario, with any server behind and in any revision, comes to something else than
docs/reference/conformance.md says. `--write` renews the tables of that page.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from conformance.figures import (
    CLIENT_TABLE,
    PAGE,
    SERVER_TABLE,
    Counts,
    Figures,
    differences,
    read_figures,
    replace_table,
    totals,
    write_table,
)
from conformance.suite import THERE, Era, column, count_checks, parse_scores, run, serve_fixtures
from real_servers import find_node

REVISIONS = ("2025-11-25", "2026-07-28")
INSPECTOR = "2.12.0"
SIGN_IN = (
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
)
CLIENT = {
    "2025-11-25": (
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
        *SIGN_IN,
    ),
    "2026-07-28": (
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
        *SIGN_IN,
        "auth/resource-mismatch",
        "auth/offline-access-scope",
        "auth/offline-access-not-supported",
        "auth/authorization-server-migration",
        "auth/iss-supported",
        "auth/iss-not-advertised",
        "auth/iss-supported-missing",
        "auth/iss-wrong-issuer",
        "auth/iss-unexpected",
        "auth/iss-normalized",
        "auth/metadata-issuer-mismatch",
    ),
}
"""All that a revision has for clients; extensions are no part of one."""
MAX_REPEATS = 3
SERVERS: tuple[Era, ...] = ("legacy", "modern", "both")


def main() -> int:
    """Measure, and compare with the page; with `--write` put the tables of scenarios into the page instead."""
    server, client = _server(), _client()
    if "--write" in sys.argv:
        page = replace_table(PAGE.read_text("utf-8"), SERVER_TABLE, write_table(server))
        PAGE.write_text(replace_table(page, CLIENT_TABLE, write_table(client)), "utf-8")
    complaints = [
        *differences(server, read_figures(SERVER_TABLE)),
        *differences(client, read_figures(CLIENT_TABLE)),
        *_inspector(),
    ]
    for line in complaints:
        print(f"not as in {PAGE.name}: {line}")
    return 1 if complaints else 0


def _server() -> Figures:
    """As a server: each revision, each with a server of either era, or both, behind us."""
    figures, expected = Figures(), read_figures(SERVER_TABLE)
    for revision in REVISIONS:
        for era in SERVERS:
            name = column(revision, era)
            with tempfile.TemporaryDirectory() as folder, serve_fixtures(Path(folder), era) as url:
                figures[name] = parse_scores(run("server", "--url", url, "--requirements", revision))
                _repeat_differing(figures[name], expected.get(name, {}), url, revision)
            passed, failed = totals(figures[name].values())
            print(f"{revision} client, {era} server: {passed} passed, {failed} failed", flush=True)
    return figures


def _repeat_differing(measured: dict[str, Counts], expected: dict[str, Counts], url: str, revision: str) -> None:
    """Measure again what is not as expected: the suite gives some checks half a second, also on a busy machine."""
    for scenario in expected.keys() & measured.keys():
        for _ in range(MAX_REPEATS):
            if measured[scenario] == expected[scenario]:
                break
            measured[scenario] = count_checks(url, scenario, revision)


def _client() -> Figures:
    """As a client: one scenario after the other, as each is given half a minute and we have few processors."""
    command = f"{sys.executable} {Path(__file__).with_name('client.py')}"
    figures = Figures()
    for revision, scenarios in CLIENT.items():
        figures[revision] = {}
        for scenario in scenarios:
            output = run("client", "--command", command, "--scenario", scenario, "--spec-version", revision)
            counts = re.search(r"Passed: (\d+)/(\d+)", output)
            passed, checks = (int(counts[1]), int(counts[2])) if counts else (0, 1)
            figures[revision][scenario] = passed, checks - passed
        passed, failed = totals(figures[revision].values())
        print(f"client, {revision}: {passed} passed, {failed} failed in {len(scenarios)} scenarios", flush=True)
    return figures


def _inspector() -> Iterator[str]:
    """The Inspector lists and calls, over HTTP and over standard streams."""
    folder = THERE / "inspector"
    folder.mkdir(parents=True, exist_ok=True)
    main = (
        folder / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
    )
    if not main.exists():
        package = f"@modelcontextprotocol/inspector@{INSPECTOR}"
        install = [*find_node(), "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", package]
        (folder / "package.json").write_text("{}")
        subprocess.run(install, cwd=folder, check=True, timeout=600, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as home, serve_fixtures(Path(home), "both") as url:
        child = [sys.executable, "-m", "toolyard", "mcp", "--cwd", home]
        for way, target in (("HTTP", [url, "--transport", "http"]), ("standard streams", child)):
            for words in (["--method", "tools/list"], ["--method", "tools/call", "--tool-name", "test_simple_text"]):
                command = [find_node()[0], str(main), "--cli", *target, *words]
                done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
                good = done.returncode == 0 and ("tools" in json.loads(done.stdout) or "simple text" in done.stdout)
                print(
                    f"Inspector {INSPECTOR}, {way}, {words[1]}: {'as expected' if good else done.stdout + done.stderr}"
                )
                if not good:
                    yield f"Inspector over {way}: {words[1]}"


if __name__ == "__main__":
    sys.exit(main())
