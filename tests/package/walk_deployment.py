"""Walk through deploy/compose.yaml without Docker: the same steps, settings and files, with processes for containers.

    python -m package.walk_deployment --caddy PATH [--picture FILE] [--contained [--python PATH]]

PostgreSQL asks for the password, and Caddy has a certificate of its own. Only names and ports differ. `--contained`,
for root on Linux, runs the replicas as in a container of compose.yaml: as another user, without new privileges, on a
file system that is read-only but for /tmp. Their Python has to be one that this user may read. The path of the modules
goes into PYTHONPATH. `make walk-deployment` runs it without `--contained`.
"""

import argparse
import asyncio
import os
import re
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import yaml
from playwright.sync_api import sync_playwright

from chromium import FLAGS, find_chromium
from cli.process import request_json
from postgres import PostgresServer, find_free_port
from support import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"
SITE = "chat.local"
CONTAINED = (
    "mount --bind /tmp /tmp && mount -o remount,bind,ro / && "
    'exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all "$@"'
)
TIMEOUT_S = 60.0


@contextmanager
def run_beside(command: Sequence[str], folder: Path, environment: dict[str, str]) -> Generator[None]:
    """Run a process until the end of the block, with its output in a file of the folder."""
    log = folder / f"{Path(command[0]).name}-{secrets.token_hex(3)}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=DEPLOY / "config", env=environment, stdout=output, stderr=-2)
    try:
        yield
    except BaseException:
        print(log.read_text("utf-8")[-3000:], file=sys.stderr)
        raise
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)


def write_secrets(folder: Path) -> str:
    """Make the files that the comment of compose.yaml makes, and return the password of the database."""
    folder.mkdir()
    folder.chmod(0o755)  # compose mounts each file by itself, here the folder is on the way to them
    names = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["secrets"]
    for name in names:
        (folder / name).write_text("" if name.endswith("api_key") else f"{secrets.token_hex(32)}\n")
        (folder / name).chmod(0o644)
    return (folder / "postgres_password").read_text().strip()


async def require_password(database: PostgresServer, password: str) -> None:
    """Create the database, give its user a password, and let nobody in without it."""
    connection = await asyncpg.connect(database.url)
    await connection.execute("CREATE DATABASE toolyard")
    await connection.execute(f"ALTER ROLE toolyard PASSWORD '{password}'")
    rules = database.directory / "data" / "pg_hba.conf"
    rules.write_text("host all all 127.0.0.1/32 scram-sha-256\n")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()
    try:
        await asyncpg.connect(database.url, password="wrong")
    except asyncpg.PostgresError as error:
        assert "password authentication failed" in str(error), error
        return
    sys.exit("PostgreSQL let somebody in with a wrong password")


def build_environment(folder: Path, database: PostgresServer) -> dict[str, str]:
    """Return the variables of a replica: those of compose.yaml and of the Dockerfile, with the addresses of here."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    settings = {name: str(value) for name, value in services["replica-1"]["environment"].items()}
    settings = {name: value.replace("/run/secrets", str(folder / "secrets")) for name, value in settings.items()}
    return {
        **settings,
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_DATA_HOME": "/nonexistent",
        "TOOLYARD_HOST": "0.0.0.0",
        "TOOLYARD_STORE": settings["TOOLYARD_STORE"].replace("postgres:5432", f"127.0.0.1:{database.port}"),
        "TOOLYARD_TRUSTED_PROXIES": "127.0.0.1",
    }


def write_caddyfile(folder: Path, ports: Sequence[int], http_port: int, https_port: int) -> Path:
    text = (DEPLOY / "Caddyfile").read_text("utf-8")
    for number, port in enumerate(ports, 1):
        text = text.replace(f"replica-{number}:8080", f"127.0.0.1:{port}")
    here = f"\tadmin off\n\thttp_port {http_port}\n\thttps_port {https_port}\n\tskip_install_trust\n"
    (folder / "Caddyfile").write_text(text.replace("\tadmin off\n", here))
    return folder / "Caddyfile"


def run_once(command: Sequence[str], environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [*command, *words], cwd=DEPLOY / "config", env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"toolyard {' '.join(words)} failed: {done.stdout}{done.stderr}")
    return done.stdout


def is_ready(url: str) -> bool:
    try:
        return request_json(f"{url}/readyz")[0] == 200
    except (urllib.error.URLError, ConnectionError, ValueError):
        return False


def check_plain_http(port: int, key: str) -> None:
    """Sign in over http from elsewhere, past Caddy: the answer has to say what is wrong."""
    headers = {"host": f"{SITE}:{port}", "origin": f"http://{SITE}:{port}"}
    status, answer = request_json(f"http://127.0.0.1:{port}/session", {"key": key}, headers=headers)
    assert status == 403 and "this page must be opened with https: " in str(answer), answer


def is_secured(root: Path, https_port: int) -> bool:
    """Return whether the site has a certificate of the authority alone that is in the file."""
    context = ssl.create_default_context(cafile=str(root))
    try:
        with (
            socket.create_connection(("127.0.0.1", https_port), timeout=TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=SITE),
        ):
            return True
    except OSError:
        return False


def check_redirect(http_port: int) -> None:
    """Open the site with http: Caddy has to lead to https."""
    connection = HTTPConnection("127.0.0.1", http_port, timeout=TIMEOUT_S)
    connection.request("GET", "/", headers={"host": SITE})
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("location")) == (308, f"https://{SITE}/"), answer.headers
    connection.close()


def sign_in(https_port: int, key: str, picture: Path) -> None:
    """Open the site as a person does, by its name, sign in and ask something."""
    with sync_playwright() as playwright:
        rule = f"--host-resolver-rules=MAP {SITE} 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=[*FLAGS, rule])
        page = browser.new_page(ignore_https_errors=True, viewport={"width": 1280, "height": 800})
        page.goto(f"https://{SITE}:{https_port}/")
        page.locator("#key").fill(key)
        page.locator("form button").click()
        box = page.get_by_role("textbox", name=re.compile("message", re.IGNORECASE))
        box.fill("when are you open on sunday")
        box.press("Enter")
        page.get_by_text(re.compile("^closed")).first.wait_for(timeout=TIMEOUT_S * 1000)
        (cookie,) = page.context.cookies()
        assert cookie.get("name") == "__Host-toolyard" and cookie.get("secure"), cookie
        page.screenshot(path=picture)
        browser.close()


async def walk(toolyard: Sequence[str], caddy: str, picture: Path, folder: Path, opened: ExitStack) -> None:
    folder.chmod(0o755)
    database = PostgresServer(folder / "postgres")
    database.start()
    opened.callback(database.stop)
    await require_password(database, write_secrets(folder / "secrets"))
    environment = build_environment(folder, database)
    run_once(toolyard, environment, "migrate")
    print("migrate: the tables are there")
    key = run_once(toolyard, environment, "keys", "add", "me", "--user", "me", "--role", "admin").split()[0]
    print("keys add: the first key was printed")
    ports = [find_free_port() for _ in range(3)]
    for port in ports:
        opened.enter_context(run_beside([*toolyard, "serve"], folder, {**environment, "TOOLYARD_PORT": str(port)}))
    for port in ports:
        await wait_until(lambda port=port: is_ready(f"http://127.0.0.1:{port}"))
    print("serve: three replicas are ready")
    check_plain_http(ports[0], key)
    print("http from elsewhere: refused, and the answer says why")
    http_port, https_port = find_free_port(), find_free_port()
    config = write_caddyfile(folder, ports, http_port, https_port)
    data = {"SITE_ADDRESS": SITE, "XDG_DATA_HOME": str(folder / "caddy"), "HOME": str(folder), "PATH": os.defpath}
    opened.enter_context(run_beside([caddy, "run", "--config", str(config), "--adapter", "caddyfile"], folder, data))
    root = folder / "caddy" / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    await wait_until(lambda: root.exists() and is_secured(root, https_port))
    print(f"caddy: https://{SITE} has a certificate of Caddy's own authority")
    check_redirect(http_port)
    print("caddy: http is led to https")
    await asyncio.to_thread(sign_in, https_port, key, picture)
    print(f"browser: signed in with the key, and answered; picture: {picture}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Walk through deploy/compose.yaml without Docker.")
    parser.add_argument("--caddy", default=shutil.which("caddy"))
    parser.add_argument("--picture", type=Path, default=Path("deployment.png"))
    parser.add_argument("--contained", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    if not options.caddy:
        sys.exit("This needs Caddy: apt-get install caddy, or --caddy PATH")
    with TemporaryDirectory() as place, ExitStack() as opened:
        contained = ["unshare", "--mount", "sh", "-c", CONTAINED, "sh"] if options.contained else []
        toolyard = [*contained, options.python, "-m", "toolyard"]
        asyncio.run(walk(toolyard, options.caddy, options.picture.absolute(), Path(place), opened))


if __name__ == "__main__":
    main()
