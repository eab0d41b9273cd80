"""`make conformance`: all of the official suite, through Toolyard to servers of both eras, and what its Inspector sees.

Prints one table. Ends with 1 if a scenario that counts fails which docs/conformance.md does not explain.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from conformance.suite import THERE, Era, Score, aggregating, run, scored
from real_servers import node

REVISIONS = ("2025-11-25", "2026-07-28")
INSPECTOR = "2.12.0"
PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
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
SERVERS: tuple[Era, ...] = ("legacy", "modern")


def main() -> int:
    unexplained = [*_server(), *_client(), *_inspector()]
    for line in unexplained:
        print(f"not explained in {PAGE.name}: {line}")
    return 1 if unexplained else 0


def _server() -> Iterator[str]:
    """As a server: each revision, each with a server of either era behind us."""
    print("| client | server behind | passed | failed | of those not scored |")
    print("|---|---|---|---|---|")
    for revision in REVISIONS:
        for era in SERVERS:
            with tempfile.TemporaryDirectory() as folder, aggregating(Path(folder), era) as url:
                score = scored(run("server", "--url", url, "--requirements", revision))
            print(_row(revision, era, score), flush=True)
            yield from (f"{revision} {era}: {name}" for name in score.failing if not _explained(name))


def _client() -> Iterator[str]:
    """As a client: one scenario after the other, as each is given half a minute and we have few processors."""
    command = f"{sys.executable} {Path(__file__).with_name('client.py')}"
    for revision, scenarios in CLIENT.items():
        passed, of = 0, 0
        for scenario in scenarios:
            said = run("client", "--command", command, "--scenario", scenario, "--spec-version", revision)
            found = re.search(r"Passed: (\d+)/(\d+)", said)
            good, all = (int(found[1]), int(found[2])) if found else (0, 1)
            passed, of = passed + good, of + all
            if good < all and not _explained(scenario):
                yield f"client {revision}: {scenario}"
        print(f"client, {revision}: {passed} passed, {of - passed} failed in {len(scenarios)} scenarios", flush=True)


def _row(revision: str, era: Era, score: Score) -> str:
    unscored = sum(failed for name, (_, failed) in score.scenarios.items() if name in score.not_scored)
    return f"| {revision} | {era} | {score.passed} | {score.failed} | {unscored} |"


def _explained(scenario: str) -> bool:
    return f"`{scenario}`" in PAGE.read_text("utf-8")


def _inspector() -> Iterator[str]:
    """The Inspector lists and calls, over HTTP and over standard streams."""
    folder = THERE / "inspector"
    folder.mkdir(parents=True, exist_ok=True)
    main = (
        folder / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
    )
    if not main.exists():
        package = f"@modelcontextprotocol/inspector@{INSPECTOR}"
        install = [*node(), "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", package]
        (folder / "package.json").write_text("{}")
        subprocess.run(install, cwd=folder, check=True, timeout=600, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as home, aggregating(Path(home), "both") as url:
        child = [sys.executable, "-m", "toolyard", "mcp", "--cwd", home]
        for way, target in (("HTTP", [url, "--transport", "http"]), ("standard streams", child)):
            for words in (["--method", "tools/list"], ["--method", "tools/call", "--tool-name", "test_simple_text"]):
                command = [node()[0], str(main), "--cli", *target, *words]
                done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
                good = done.returncode == 0 and ("tools" in json.loads(done.stdout) or "simple text" in done.stdout)
                print(
                    f"Inspector {INSPECTOR}, {way}, {words[1]}: {'as expected' if good else done.stdout + done.stderr}"
                )
                if not good:
                    yield f"Inspector over {way}: {words[1]}"


if __name__ == "__main__":
    sys.exit(main())
