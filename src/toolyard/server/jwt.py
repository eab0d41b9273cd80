"""Verification of JSON Web Tokens: a valid token becomes a `Caller`. Only this module uses PyJWT and public keys.

Only the configured algorithm is accepted, whatever a token's header says; a token without an expiry is refused.
"""

import logging
import threading
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jwt
import msgspec

from toolyard.core.caller import Caller
from toolyard.core.errors import Unauthenticated, Unavailable
from toolyard.server.config import JwtConfig

SKEW_S = 30
FETCH_TIMEOUT_S = 3.0
MAX_AGE_S = 300.0
MIN_FETCH_INTERVAL_S = 30.0
"""The least time between two fetches, so that tokens with unknown key ids cannot flood the source of the keys."""
MAX_JWKS_BYTES = 1024 * 1024

_log = logging.getLogger("toolyard.tokens")


def verifier(rules: JwtConfig) -> Callable[[str], Caller]:
    """Return a function that turns a token into its caller.

    The function raises Unauthenticated with a reason that does not contain the token, and Unavailable while the public
    keys are not there yet.
    """
    if rules.algorithm == "HS256":
        return lambda token: _build_caller(decode_claims(token, rules.secret, rules), rules)
    keys = PublicKeys(Path(rules.jwks_file).read_bytes if rules.jwks_file else partial(_fetch_url, rules.jwks_url))

    def verify(token: str) -> Caller:
        return _build_caller(decode_claims(token, keys.find(read_key_id(token)), rules), rules)

    return verify


class PublicKeys:
    """The keys of a JWKS. They are cached, and fetched again in a thread, so that no request waits for a fetch."""

    def __init__(self, fetch: Callable[[], bytes], clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: dict[str, jwt.PyJWK] = {}
        self._requested_at = clock()
        self._fetched_at: float | None = None
        # Held while a fetch is under way. `find` or this constructor acquires it and the thread of the fetch releases
        # it, which a Lock allows and an RLock does not.
        self._fetch_lock = threading.Lock()
        self._fetch_lock.acquire()
        self._start_refresh().join(FETCH_TIMEOUT_S)

    def find(self, key_id: str) -> jwt.PyJWK:
        """Return the key with that id, or the only key if the token names none. Never wait for a fetch."""
        # A stale key stays in use until newer keys are there: a source that is down for a while locks nobody out.
        now = self._clock()
        key = self._keys.get(key_id) if key_id or len(self._keys) != 1 else next(iter(self._keys.values()))
        stale = self._fetched_at is None or now - self._fetched_at > MAX_AGE_S
        if (
            (key is None or stale)
            and now - self._requested_at > MIN_FETCH_INTERVAL_S
            and self._fetch_lock.acquire(blocking=False)
        ):
            self._requested_at = now
            self._start_refresh()
        if key is not None:
            return key
        if self._fetch_lock.locked() or self._fetched_at is None:
            raise Unavailable("the keys that tokens are checked with are being fetched; send this again in a moment")
        raise Unauthenticated("the token was signed with a key that is not known here")

    def _start_refresh(self) -> threading.Thread:
        thread = threading.Thread(target=self._refresh, name="toolyard-jwks", daemon=True)
        thread.start()
        return thread

    def _refresh(self) -> None:
        try:
            self._keys = parse_public_keys(self._fetch())
            self._fetched_at = self._clock()
        except (OSError, ValueError, jwt.PyJWTError) as error:
            _log.warning("the keys that tokens are checked with could not be fetched: %s", error)
        finally:
            self._fetch_lock.release()


class _Jwks(msgspec.Struct):
    keys: list[dict[str, object]]


def parse_public_keys(body: bytes) -> dict[str, jwt.PyJWK]:
    """Return the keys by id. Keys for other uses than RS256 signatures are left out: they must not verify one."""
    entries = msgspec.json.decode(body, type=_Jwks).keys
    usable = [entry for entry in entries if entry.get("kty") == "RSA" and entry.get("use", "sig") == "sig"]
    keys = {
        str(entry.get("kid", "")): jwt.PyJWK(entry, "RS256") for entry in usable if entry.get("alg", "RS256") == "RS256"
    }
    if not keys:
        raise ValueError("it holds no RSA key for signatures")
    return keys


def _fetch_url(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=FETCH_TIMEOUT_S) as response:
        return response.read(MAX_JWKS_BYTES)


def read_key_id(token: str) -> str:
    try:
        return str(jwt.get_unverified_header(token).get("kid", ""))
    except jwt.InvalidTokenError:
        raise Unauthenticated("the token cannot be read") from None


def decode_claims(token: str, key: str | jwt.PyJWK, rules: JwtConfig) -> dict[str, object]:
    try:
        return jwt.decode(
            token,
            key,
            algorithms=[rules.algorithm],
            audience=rules.audience or None,
            issuer=rules.issuer or None,
            leeway=SKEW_S,
            options={"require": ["exp"], "verify_aud": bool(rules.audience)},
        )
    except jwt.ExpiredSignatureError:
        raise Unauthenticated("the token has expired; get a new one") from None
    except jwt.MissingRequiredClaimError as error:
        raise Unauthenticated(f"the token lacks the claim {error.claim}") from None
    except jwt.InvalidAlgorithmError:
        raise Unauthenticated(f"the token is not signed with {rules.algorithm}") from None
    except (jwt.InvalidAudienceError, jwt.InvalidIssuerError):
        raise Unauthenticated("the token was made by or for somebody else") from None
    except jwt.ImmatureSignatureError:
        raise Unauthenticated("the token is not valid yet") from None
    except jwt.PyJWTError:
        raise Unauthenticated("the token is not valid: its signature or its form is wrong") from None


def _build_caller(claims: dict[str, object], rules: JwtConfig) -> Caller:
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user:
        raise Unauthenticated(f"the token names no user: it lacks the claim {rules.user_claim}")
    return Caller(
        user=user,
        roles=_parse_roles(claims.get(rules.roles_claim)),
        tenant=_to_text(claims.get(rules.tenant_claim)),
        division=_to_text(claims.get(rules.division_claim)),
    )


def _parse_roles(claim: object) -> frozenset[str]:
    """Return the roles of a claim: a list of texts, or one text separated by spaces, as OAuth writes scopes.

    Anything else gives no role.
    """
    if isinstance(claim, str):
        return frozenset(claim.split())
    items: list[object] = list(claim) if isinstance(claim, list) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return frozenset(item for item in items if isinstance(item, str))


def _to_text(claim: object) -> str:
    return claim if isinstance(claim, str) else ""
