"""A real identity provider in a process of Node, and a person who signs in at its pages."""

import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import aiohttp

from real_servers import find_node, install_npm_package

SCRIPT = Path(__file__).parent / "real_provider.mjs"
CLIENT_ID, CLIENT_SECRET = "toolyard", "a secret of the client: with / and +"
MAX_PAGES = 10
_FORM = re.compile(r'<form[^>]*action="([^"]+)"[^>]*>(.*?)</form>', re.DOTALL)
_INPUT = re.compile(r'<input[^>]*name="([^"]+)"(?:[^>]*value="([^"]*)")?')
_ABORT = re.compile(r'href="([^"]+/abort)"')


@contextmanager
def start_real_provider(*, groups_in_token: bool = False) -> Generator[str]:
    """Yield the provider's issuer. It ends with the block."""
    command = [find_node()[0], str(SCRIPT), str(install_npm_package("oidc-provider")), "yes" if groups_in_token else ""]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        # Notes of the package for developers come first.
        yield next(line.strip() for line in process.stdout if line.startswith("http://localhost:"))
    finally:
        process.kill()
        process.communicate()


class Person:
    """Somebody in front of the provider's pages, with the cookies that it has set."""

    def __init__(self, http: aiohttp.ClientSession, issuer: str) -> None:
        self._http = http
        self._issuer = issuer

    async def sign_in(self, page: str, login: str) -> str:
        """Sign in and consent, and return the address that the provider sends the browser back to."""
        text, address, form = "", page, dict[str, str]()
        for _ in range(MAX_PAGES):
            text, address = await self._open(address, form)
            if not address.startswith(self._issuer):
                return address
            match = _FORM.search(text)
            if match is None:
                form = {}
                continue
            address = urljoin(address, unescape(match[1]))
            form = {name: unescape(value or login) for name, value in _INPUT.findall(match[2])}
        raise AssertionError(f"the provider does not send the browser back: {text}")

    async def refuse(self, page: str) -> str:
        """Cancel at the first page, and return the address that the provider sends the browser back to."""
        text, address = "", page
        while not (match := _ABORT.search(text)):
            text, address = await self._open(address, {})
        address = urljoin(address, unescape(match[1]))
        while address.startswith(self._issuer):
            _, address = await self._open(address, {})
        return address

    async def _open(self, address: str, form: dict[str, str]) -> tuple[str, str]:
        """Return a page and its address, or no text and the address that it leads to."""
        method = "POST" if form else "GET"
        async with self._http.request(method, address, data=form or None, allow_redirects=False) as response:
            if location := response.headers.get("location"):
                return "", urljoin(address, location)
            text = await response.text()
            assert response.status == 200, text
            return text, address
