"""An identity provider for tests: as strict as a real one, until a test makes it lie, fail, hang or send too much.

And a visitor with a browser's cookies, who signs in to a yard with it.
"""

import asyncio
import json
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tcp_servers import serve_web_app

CLIENT_ID, CLIENT_SECRET = "toolyard client", "a client's secret: with / and +"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
FOREIGN_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
KEY_ID = "k1"
MAX_CODE_S = 60.0
Claims = dict[str, object]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StandInProvider:
    def __init__(self) -> None:
        self.issuer = ""
        self.grants: dict[str, tuple[dict[str, str], Claims]] = {}
        """The query of the sign-in page and the person's claims, by code. A code is taken once."""
        self.metadata_changes: Claims = {}
        self.userinfo: Claims | None = None
        self.sign: Callable[[Claims], str] = sign_token
        self.answers: dict[str, Answer] = {}
        """Answers of a test in place of the provider's own, by path."""
        self.requests: list[str] = []
        self.stopped = asyncio.Event()

    def grant(self, page: str, **claims: object) -> str:
        """Return the query that the provider sends a browser back with, for somebody with these claims."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(page).query).items()}
        assert query["response_type"] == "code" and query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256" and "openid" in query["scope"].split()
        code = f"code {len(self.requests)} {query['state'][:8]}"
        self.grants[code] = query, claims
        return urlencode({"code": code, "state": query["state"], "iss": self.issuer})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        if request.path in self.answers:
            return await self.answers[request.path](request)
        match request.path:
            case "/.well-known/openid-configuration":
                return web.json_response(self._describe())
            case "/keys":
                public_key = json.loads(RSAAlgorithm.to_jwk(KEY.public_key()))
                return web.json_response({"keys": [{**public_key, "kid": KEY_ID, "use": "sig"}]})
            case "/token":
                return await self._exchange(request)
            case "/userinfo":
                assert request.headers["authorization"] == "Bearer opaque"
                return web.json_response(self.userinfo)
            case _:
                return web.Response(status=404)

    def _describe(self) -> Claims:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "authorization_response_iss_parameter_supported": True,
            **({"userinfo_endpoint": f"{self.issuer}/userinfo"} if self.userinfo is not None else {}),
            **self.metadata_changes,
        }

    async def _exchange(self, request: web.Request) -> web.Response:
        form = await request.post()
        credentials = b64encode(b"toolyard+client:a+client%27s+secret%3A+with+%2F+and+%2B").decode()
        is_posted = self.metadata_changes.get("token_endpoint_auth_methods_supported") == ["client_secret_post"]
        posted = form.get("client_id"), form.get("client_secret"), request.headers.get("authorization")
        by_header = (None, None, f"Basic {credentials}")
        if posted != ((CLIENT_ID, CLIENT_SECRET, None) if is_posted else by_header):
            return web.json_response({"error": "invalid_client"}, status=401)
        query, claims = self.grants.pop(str(form["code"]), ({}, {}))
        digest = sha256(str(form["code_verifier"]).encode()).digest()
        challenge = urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (form["redirect_uri"], challenge) != (query.get("redirect_uri"), query.get("code_challenge")):
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = time.time()
        token: Claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": "ann",
            "iat": now,
            "exp": now + MAX_CODE_S,
            "nonce": query["nonce"],
            **claims,
        }
        id_token = self.sign({name: value for name, value in token.items() if value is not None})
        return web.json_response({"id_token": id_token, "access_token": "opaque", "token_type": "Bearer"})

    async def hang(self, request: web.Request) -> web.Response:
        await self.stopped.wait()
        return web.Response()


def sign_token(claims: Claims, key: rsa.RSAPrivateKey = KEY, key_id: str = KEY_ID) -> str:
    return jwt.encode(claims, key, "RS256", headers={"kid": key_id})


@asynccontextmanager
async def serve_provider() -> AsyncGenerator[StandInProvider]:
    provider = StandInProvider()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", provider.answer)
    async with serve_web_app(app, shutdown_timeout_s=1.0) as provider.issuer:
        try:
            yield provider
        finally:
            provider.stopped.set()


class Visitor:
    """A browser at one address, with the cookies that the server has set. It follows no redirection by itself."""

    def __init__(self, http: aiohttp.ClientSession, url: str, host: str = "", prefix: str = "") -> None:
        self.http = http
        self.url = url
        self.headers = {"host": host} if host else {}
        self.prefix = prefix
        self.cookies: dict[str, str] = {}
        self.flags: dict[str, dict[str, str]] = {}

    async def open(self, path: str) -> tuple[int, str]:
        """Return the status and where the answer leads to."""
        headers = {**self.headers, "cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        async with self.http.get(self.url + path, headers=headers, allow_redirects=False) as response:
            for cookie in response.headers.getall("set-cookie", []):
                for name, morsel in SimpleCookie(cookie).items():
                    self.cookies[name] = morsel.value
                    self.flags[name] = {flag: value for flag, value in morsel.items() if value}
            return response.status, response.headers.get("location", "")

    async def begin(self) -> str:
        """Return the address of the provider's page."""
        status, page = await self.open(f"{self.prefix}/session/oidc")
        assert status == 302 and "code_challenge=" in page, page
        return page

    async def come_back(self, query: str) -> str:
        """Return where the callback leads to."""
        status, location = await self.open(f"{self.prefix}/session/oidc/callback?{query}")
        assert status == 302
        return location

    async def get_me(self) -> dict[str, object] | None:
        """Return who the server takes the visitor for; None if for nobody."""
        async with self.http.get(f"{self.url}{self.prefix}/me", headers=self._add_cookies()) as response:
            assert response.status in (200, 401)
            return await response.json() if response.status == 200 else None

    async def list_audited(self) -> list[tuple[str, str]]:
        """Return the action and the address of each entry of the audit log."""
        async with self.http.get(f"{self.url}{self.prefix}/audit", headers=self._add_cookies()) as response:
            assert response.status == 200, await response.text()
            return [(entry["action"], entry["address"]) for entry in (await response.json())["entries"]]

    def _add_cookies(self) -> dict[str, str]:
        return {**self.headers, "cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
