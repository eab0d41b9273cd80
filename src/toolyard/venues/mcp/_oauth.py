"""Tokens for servers that want one, by the SDK's own client: it finds the authorization server, asks, and renews.

Each session has its own, kept in memory: a token of one caller is never another one's, and none is ever written down.
"""

import httpx2
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from toolyard.core.servers import ServerSpec


class _InMemory:
    """Where the SDK keeps what it was given."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


def auth_for(spec: ServerSpec) -> httpx2.Auth | None:
    """What signs the requests to this server, if it is configured to want that."""
    if spec.oauth is None:
        return None
    return ClientCredentialsOAuthProvider(
        spec.url,
        _InMemory(),
        spec.oauth.client_id,
        spec.oauth.client_secret,
        scope=spec.oauth.scope or None,
        issuer=spec.oauth.issuer,
    )
