"""The identity provider of `[oidc]`: discovery, the exchange of a code, and the check of the ID token (OpenID Connect).

Only the ID token says who somebody is: signed by the provider with RS256, for this client, for this attempt, not
expired. The provider's other tokens are not kept. Every request has a deadline and a limit of bytes, and follows no
redirection.
"""

import asyncio
import hashlib
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
import jwt
import msgspec
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import Unauthenticated
from toolyard.core.json_types import is_list
from toolyard.core.settings.network.addresses import is_loopback
from toolyard.engine.access.provider_sign_in import CallbackAnswer, SignInAttempt, SignInFailed
from toolyard.server.config import JwtConfig, OidcConfig
from toolyard.server.jwt import MAX_AGE_S, MIN_FETCH_INTERVAL_S, decode_claims, parse_public_keys, read_key_id

REQUEST_S = 5.0
MAX_ANSWER_BYTES = 512 * 1024
MAX_METADATA_AGE_S = 3600.0
DISCOVERY_PATH = "/.well-known/openid-configuration"
_HEADERS = {"accept": "application/json", "accept-encoding": "identity"}
T = TypeVar("T")


class ProviderMetadata(Struct, frozen=True, kw_only=True):
    """What the provider says about itself at its discovery address."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class TokenAnswer(Struct, frozen=True, kw_only=True):
    id_token: str
    access_token: str = ""


class TokenRefusal(Struct, frozen=True, kw_only=True):
    error: str = ""


class OidcProvider:
    """An `IdentityProvider` that is discovered when the first person signs in."""

    def __init__(
        self, config: OidcConfig, clock: Callable[[], float] = time.monotonic, request_s: float = REQUEST_S
    ) -> None:
        self._config = config
        self._token_rules = JwtConfig(algorithm="RS256", issuer=config.issuer, audience=config.client_id)
        self._clock = clock
        self._request_s = request_s
        self._discovering = asyncio.Lock()
        self._metadata: ProviderMetadata | None = None
        self._discovered_at = 0.0
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._keys_at: float | None = None
        self.name = config.name
        self.rights = _digest_rights(config)
        self.admin_tenants = config.admin_tenants

    async def build_url(self, attempt: SignInAttempt, state: str) -> str:
        metadata = await self.discover()
        query = {
            "response_type": "code",
            "client_id": self._config.client_id,
            "redirect_uri": attempt.redirect_uri,
            "scope": " ".join(self._config.scopes),
            "state": state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        separator = "&" if urlsplit(metadata.authorization_endpoint).query else "?"
        return f"{metadata.authorization_endpoint}{separator}{urlencode(query)}"

    async def identify(self, attempt: SignInAttempt, answer: CallbackAnswer) -> Caller:
        metadata = await self.discover()
        # RFC 9207: the answer names its issuer, so that a code of another provider is never sent to this one.
        is_named = answer.issuer is not None or metadata.authorization_response_iss_parameter_supported
        if is_named and answer.issuer != self._config.issuer:
            raise SignInFailed("failed", "the answer was made by another provider")
        if not answer.code:
            raise SignInFailed("failed", "the provider's answer has no code")
        tokens = await self._exchange(metadata, attempt, answer.code)
        claims = await self._verify(metadata, tokens.id_token, attempt.nonce)
        return build_caller(await self._complete(metadata, claims, tokens.access_token), self._config)

    async def discover(self) -> ProviderMetadata:
        """Return the provider's metadata, fetched again after an hour. Raise SignInFailed."""
        try:
            # The deadline includes the wait for the lock: others may be waiting for a provider that does not answer.
            async with asyncio.timeout(self._request_s), self._discovering:
                if self._metadata is None or self._clock() - self._discovered_at > MAX_METADATA_AGE_S:
                    self._metadata = await self._fetch_metadata()
                    self._discovered_at = self._clock()
                return self._metadata
        except TimeoutError:
            raise SignInFailed("unavailable", "the provider did not answer in time") from None

    async def _fetch_metadata(self) -> ProviderMetadata:
        url = self._config.issuer.rstrip("/") + DISCOVERY_PATH
        metadata = _decode(await self._request("GET", url), ProviderMetadata, "discovery document")
        if metadata.issuer != self._config.issuer:
            raise SignInFailed("failed", "the provider's discovery document names another issuer than [oidc] does")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"):
            address: str = getattr(metadata, name)
            if address and not self._is_safe_address(address):
                raise SignInFailed("failed", f"the provider's {name} does not begin with https://")
        return metadata

    def _is_safe_address(self, address: str) -> bool:
        """Return whether nobody on the way can read or change what is sent to an address."""
        try:
            url = urlsplit(address)
        except ValueError:
            return False
        is_local_provider = is_loopback(urlsplit(self._config.issuer).hostname or "")
        is_local = is_local_provider and url.scheme == "http" and is_loopback(url.hostname or "")
        return bool(url.hostname) and (url.scheme == "https" or is_local)

    async def _exchange(self, metadata: ProviderMetadata, attempt: SignInAttempt, code: str) -> TokenAnswer:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect_uri,
            "code_verifier": attempt.verifier,
        }
        client_id, secret = self._config.client_id, self._config.client_secret
        headers: dict[str, str] = {}
        if secret and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            # RFC 6749, section 2.3.1: both are form-encoded first, as a colon would end the client's id.
            credentials = f"{quote_plus(client_id)}:{quote_plus(secret)}".encode()
            headers["authorization"] = f"Basic {b64encode(credentials).decode()}"
        else:
            form |= {"client_id": client_id, **({"client_secret": secret} if secret else {})}
        body = await self._request("POST", metadata.token_endpoint, form, headers)
        return _decode(body, TokenAnswer, "answer to the code")

    async def _verify(self, metadata: ProviderMetadata, id_token: str, nonce: str) -> dict[str, object]:
        """Return the claims of an ID token that was made by this provider, for this client and this attempt."""
        try:
            claims = decode_claims(id_token, await self._find_key(metadata, read_key_id(id_token)), self._token_rules)
        except Unauthenticated as error:
            raise SignInFailed("failed", f"the ID token does not count: {error}") from None
        token_nonce = claims.get("nonce")
        if not isinstance(token_nonce, str) or not compare_digest(token_nonce.encode(), nonce.encode()):
            raise SignInFailed("failed", "the ID token was made for another sign-in")
        audience, client_id = claims.get("aud"), self._config.client_id
        # A token for several parties names the one that it was issued to (azp): the others must not sign in with it.
        is_shared = is_list(audience) and len(audience) > 1
        if claims.get("azp", None if is_shared else client_id) != client_id:
            raise SignInFailed("failed", "the ID token was issued to another client")
        return claims

    async def _find_key(self, metadata: ProviderMetadata, key_id: str) -> jwt.PyJWK:
        """Return the provider's key of this id, or its only key if the token names none."""
        age_s = float("inf") if self._keys_at is None else self._clock() - self._keys_at
        key = self._match_key(key_id)
        # A key that is not known may be new. Tokens come from the provider itself, so few lead to a fetch.
        if age_s > MAX_AGE_S or (key is None and age_s > MIN_FETCH_INTERVAL_S):
            body = await self._request("GET", metadata.jwks_uri)
            try:
                self._keys, self._keys_at = parse_public_keys(body), self._clock()
            except (ValueError, jwt.PyJWTError) as error:
                raise SignInFailed("failed", f"the provider's keys cannot be read: {error}") from None
            key = self._match_key(key_id)
        if key is None:
            raise SignInFailed("failed", "the ID token was signed with a key that is not the provider's")
        return key

    def _match_key(self, key_id: str) -> jwt.PyJWK | None:
        is_only_key = not key_id and len(self._keys) == 1
        return next(iter(self._keys.values())) if is_only_key else self._keys.get(key_id)

    async def _complete(
        self, metadata: ProviderMetadata, claims: dict[str, object], access_token: str
    ) -> dict[str, object]:
        """Return the claims with those that the provider tells only at its userinfo address, as groups often are."""
        missing = {self._config.user_claim, self._config.groups_claim} - claims.keys()
        if not missing or not metadata.userinfo_endpoint or not access_token:
            return claims
        headers = {"authorization": f"Bearer {access_token}"}
        body = await self._request("GET", metadata.userinfo_endpoint, headers=headers)
        more_claims = _decode(body, dict[str, object], "answer about the person")
        if not claims.get("sub") or more_claims.get("sub") != claims["sub"]:
            raise SignInFailed("failed", "the provider told about another person than the one who signed in")
        return {**more_claims, **claims}

    async def _request(
        self, method: str, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Return the body of a successful answer. Raise SignInFailed for any other."""
        timeout = aiohttp.ClientTimeout(total=self._request_s)
        try:
            async with (
                # Compressed answers are not read: a small one could become a very large one.
                aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as http,
                http.request(
                    method, url, data=form, headers={**_HEADERS, **(headers or {})}, allow_redirects=False
                ) as response,
            ):
                body = await _read_bounded(response)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # TimeoutError is an OSError
            raise SignInFailed("unavailable", f"the provider cannot be reached: {type(error).__name__}") from None
        if response.status >= 500:
            raise SignInFailed("unavailable", f"the provider answered {response.status}")
        if response.status != 200:
            raise SignInFailed("failed", f"the provider answered {response.status}{_read_refusal(body)}")
        return body


def build_caller(claims: Mapping[str, object], config: OidcConfig) -> Caller:
    """Return the caller with these claims. Raise SignInFailed for a person who may not use this server."""
    user = claims.get(config.user_claim)
    if not isinstance(user, str) or not user:
        raise SignInFailed("failed", f"the provider does not tell the claim {config.user_claim}, who the person is")
    # At some providers people may enter any address: without the check they could become somebody else.
    if "email" in (config.user_claim, config.groups_claim) and claims.get("email_verified") is not True:
        raise SignInFailed("no_access", "the provider has not verified the person's email address")
    groups = parse_groups(claims.get(config.groups_claim))
    roles = frozenset(role for group in groups for role in config.roles.get(group, ()))
    tenants = {config.tenants[group] for group in groups if group in config.tenants}
    if len(tenants) > 1:
        raise SignInFailed("no_access", f"the groups of {user[:80]!r} are of several tenants")
    is_known = any(group in config.roles or group in config.tenants for group in groups)
    # Somebody with a role and no tenant would have it for the whole server: that has to be configured.
    lacks_tenant = bool(config.tenants and not tenants and is_known)
    if lacks_tenant or not (is_known or config.allow_everybody):
        lacking = "names a tenant" if lacks_tenant else "may use this server"
        raise SignInFailed("no_access", f"none of the groups of {user[:80]!r} {lacking}")
    return Caller(user=user, roles=roles, tenant=next(iter(tenants), ""))


def parse_groups(claim: object) -> frozenset[str]:
    """Return the groups of a claim: a list of texts, or one text, whose spaces are part of the name."""
    if isinstance(claim, str):
        return frozenset({claim})
    items = claim if is_list(claim) else []
    return frozenset(item for item in items if isinstance(item, str))


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise SignInFailed("unavailable", f"the provider's answer has more than {MAX_ANSWER_BYTES} bytes")
    return bytes(body)


def _read_refusal(body: bytes) -> str:
    """Return the error code of an OAuth answer for the log. Its description could repeat what was sent."""
    try:
        error = msgspec.json.decode(body, type=TokenRefusal).error
    except ValueError:
        return ""
    return f": {error[:80]!r}" if error else ""


def _decode(body: bytes, kind: type[T], described_as: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except ValueError:
        raise SignInFailed("failed", f"the provider's {described_as} cannot be read") from None


def _digest_rights(config: OidcConfig) -> str:
    rules = (config.issuer, config.client_id, config.user_claim, config.groups_claim, config.roles, config.tenants)
    encoded = msgspec.json.encode((*rules, config.allow_everybody), order="deterministic")
    return hashlib.sha256(encoded).hexdigest()
