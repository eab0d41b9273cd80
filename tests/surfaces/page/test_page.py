"""The page's own files: open to all, from this origin only, and honest where they were not built."""

import base64
import gzip
import hashlib
from pathlib import Path

from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.testing import TestClient

from surfaces.api_client import build_key, build_yard, open_api_client
from surfaces.in_process_client import InProcessExchange, open_in_process_client
from toolyard import Yard, tool
from toolyard.core.errors import NotFound
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.page import routes as page


def write_build(folder: Path) -> Path:
    (folder / "assets").mkdir()
    (folder / "index.html").write_text("<title>Toolyard</title>")
    (folder / "diagram.html").write_text("<title>Diagram</title><script>draw()</script>")
    (folder / "assets" / "index-1a2b.js").write_text("go()" * 100)
    (folder / "assets" / "secret.txt").write_text("not of the page")
    return folder


def make_client(folder: Path) -> TestClient[Litestar]:
    def missing(request: Request[object, object, State], error: NotFound) -> Response[str]:
        return Response(str(error), status_code=404)

    return TestClient(
        Litestar(
            page.build_routes(folder),
            exception_handlers={NotFound: missing},
            request_class=HttpRequest,
            logging_config=None,
        )
    )


def test_the_page_comes_with_a_policy_that_lets_nothing_else_in(tmp_path: Path) -> None:
    with make_client(write_build(tmp_path)) as http:
        answer = http.get("/")
    assert answer.text == "<title>Toolyard</title>"
    assert answer.headers["cache-control"] == "no-cache"
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert "http" not in answer.headers["content-security-policy"]


def test_the_frame_of_diagrams_is_sandboxed_and_reaches_nothing(tmp_path: Path) -> None:
    with make_client(write_build(tmp_path)) as http:
        answer = http.get("/diagram")
        again = http.get("/diagram", headers={"if-none-match": answer.headers["etag"]})
    assert answer.text == "<title>Diagram</title><script>draw()</script>"
    assert (again.status_code, again.text) == (304, "")
    digest = base64.b64encode(hashlib.sha256(b"draw()").digest()).decode()
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digest}'",
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'self'",
        "sandbox": "allow-scripts",
    }


def test_its_files_are_packed_and_kept_for_ever(tmp_path: Path) -> None:
    with make_client(write_build(tmp_path)) as http:
        packed = http.get("/assets/index-1a2b.js", headers={"accept-encoding": "gzip"})
        plain = http.get("/assets/index-1a2b.js", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip" and "immutable" in packed.headers["cache-control"]
    assert packed.headers["content-type"] == "text/javascript; charset=utf-8"
    assert packed.text == plain.text == "go()" * 100
    assert "content-encoding" not in plain.headers
    assert int(packed.headers["content-length"]) == len(gzip.compress(b"go()" * 100, 9))


def test_nothing_but_its_files_is_to_be_had(tmp_path: Path) -> None:
    (tmp_path / "secret.js").write_text("outside")
    folder = tmp_path / "page"
    folder.mkdir()
    with make_client(write_build(folder)) as http:
        for name in ("secret.txt", "none.js", "..%2fsecret.js", "%2e%2e%2fsecret.js", "..js", ".js", "index.html"):
            assert http.get(f"/assets/{name}").status_code == 404, name


def test_a_checkout_without_the_build_says_how_to_make_it(tmp_path: Path) -> None:
    with make_client(tmp_path) as http:
        answer = http.get("/")
        assert http.get("/diagram").status_code == 404
    assert answer.status_code == 200
    assert "make page" in answer.text and "script" not in answer.text


async def get_status(yard: Yard, path: str) -> int:
    asking = InProcessExchange("GET", path, {"host": "127.0.0.1"}, b"")
    await yard.asgi()(asking.scope, asking.receive, asking.send)
    return (await asking.read_start())[0]


async def test_the_page_asks_for_no_key_and_everything_that_it_shows_does() -> None:
    async with build_yard((), keys=[build_key("ann")]) as yard, open_in_process_client(yard) as http:
        assert await get_status(yard, "/") == 200
        assert await get_status(yard, "/assets/none.js") == 404
        for path in ("/me", "/tools", "/conversations"):
            assert (await http.ask("GET", path))[0] == 401


async def test_me_is_who_the_key_stands_for() -> None:
    async with open_api_client(keys=[build_key("ann", "operator", "approver")]) as http:
        me = await http.with_key("ann").get("/me")
        assert (me["user"], me["roles"], me["tenant"], me["keyless"]) == ("ann", ["approver", "operator"], "t", False)


async def test_without_any_key_everybody_is_the_local_administrator() -> None:
    async with open_api_client() as http:
        me = await http.get("/me")
        assert (me["user"], me["keyless"]) == ("local", True) and "admin" in me["roles"]


@tool(roles=["chef"], approval="ask", idempotent=True, destructive=True, open_world=True, examples=["cook"])
def cook(dish: str) -> str:
    """Cook something."""
    return dish


@tool(read_only=True)
def taste() -> str:
    """Taste it."""
    return "good"


async def test_the_tools_are_those_that_the_caller_may_use_with_their_rules() -> None:
    async with open_api_client(keys=[build_key("ann"), build_key("bob", "chef")], tools=[cook, taste]) as http:
        assert [tool["name"] for tool in (await http.with_key("ann").get("/tools"))["tools"]] == ["taste"]
        cooking = (await http.with_key("bob").get("/tools"))["tools"][0]
        assert cooking["name"] == "cook" and cooking["roles"] == ["chef"] and cooking["approval"] == "ask"
        assert cooking["parameters"]["required"] == ["dish"] and cooking["venue"] == "function"
        assert cooking["idempotent"] and cooking["examples"] == ["cook"]
        assert (cooking["read_only"], cooking["destructive"], cooking["open_world"]) == (False, True, True)
        tasting = (await http.with_key("ann").get("/tools"))["tools"][0]
        assert (tasting["read_only"], tasting["destructive"], tasting["idempotent"]) == (True, False, False)
