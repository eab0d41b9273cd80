"""Records that are encrypted with the server's secret, `TOOLYARD_SECRET`: tokens, sign-ins under way, stored secrets.

The record's kind and name are authenticated with its content, so that the token of one caller cannot be put in the
place of another's. `cipher`, with its library, is imported with the first use.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import msgspec

from toolyard.core.errors import Misconfigured, Refused, install_command
from toolyard.core.store import SharedKeyValue

if TYPE_CHECKING:
    from toolyard.venues.mcp.auth.cipher import RecordCipher

SECRET_VARIABLE = "TOOLYARD_SECRET"
MIN_SECRET_CHARS = 32
_PREFIX = b"sealed1:"
"""No JSON begins so: a record without it was stored without a secret."""


class UndecryptableRecord(Refused):
    """A record is encrypted, and not with a secret that is known here."""


class SealedRecords:
    """Encrypts records if there is a secret. Records that were stored without one stay readable.

    A store that several replicas share may have other readers than this server, so that there it needs a secret to
    store anything.
    """

    def __init__(self, store: SharedKeyValue, secret: str = "") -> None:
        """`secret` may be several ones with commas between them: the first encrypts, and all decrypt."""
        self._store = store
        self._secrets = [part.strip() for part in secret.split(",") if part.strip()]
        self._ciphers: list[RecordCipher] = []
        if any(len(part) < MIN_SECRET_CHARS for part in self._secrets):
            raise Misconfigured(
                f"{SECRET_VARIABLE} must have at least {MIN_SECRET_CHARS} characters (several secrets with commas "
                "between them: each of them); `openssl rand -base64 32` makes one"
            )

    @property
    def encrypts(self) -> bool:
        return bool(self._secrets)

    def require_secret(self) -> None:
        """Raise Refused if records cannot be stored for want of a secret."""
        if self._store.is_shared and not self._secrets:
            raise Refused(
                f"secrets are not stored in a shared database without encryption: set {SECRET_VARIABLE} to at least "
                f"{MIN_SECRET_CHARS} characters, the same at all replicas, and start again"
            )

    async def read(self, kind: str, name: str) -> bytes | None:
        """Return a record. Raise UndecryptableRecord if it is encrypted with a secret that is not known here."""
        body = await self._store.read_record(kind, name)
        return None if body is None else self.unseal(kind, name, body)

    async def list_sealed(self, kind: str) -> Sequence[tuple[str, bytes]]:
        """Return all records of a kind as they are stored, for `unseal`."""
        return await self._store.list_records(kind)

    async def set(self, kind: str, name: str, body: bytes) -> None:
        await self._store.set_record(kind, name, self.seal(kind, name, body))

    def seal(self, kind: str, name: str, body: bytes) -> bytes:
        """Return the body of a record as it is to be stored; one that is encrypted already stays as it is.

        Raise Refused if it cannot be stored for want of a secret.
        """
        if body.startswith(_PREFIX):
            return body
        self.require_secret()
        if not self._secrets:
            return body
        return _PREFIX + self._load_ciphers()[0].encrypt(body, _encode_associated_data(kind, name))

    async def delete(self, kind: str, name: str) -> None:
        await self._store.delete_record(kind, name)

    def lock(self, kind: str, name: str) -> AbstractAsyncContextManager[None]:
        return self._store.lock(kind, name)

    def unseal(self, kind: str, name: str, body: bytes) -> bytes:
        if not body.startswith(_PREFIX):
            return body
        for cipher in self._load_ciphers():
            if (content := cipher.decrypt(body[len(_PREFIX) :], _encode_associated_data(kind, name))) is not None:
                return content
        reason = "is not the one that it was encrypted with" if self._secrets else "is not set"
        raise UndecryptableRecord(
            f"what is stored cannot be decrypted: {SECRET_VARIABLE} {reason}. Set the right one (after a comma, if a "
            "new one comes first), or sign in or save it again"
        )

    def _load_ciphers(self) -> "list[RecordCipher]":
        if len(self._ciphers) < len(self._secrets):
            try:
                from toolyard.venues.mcp.auth.cipher import RecordCipher
            except ImportError as error:
                raise Misconfigured(
                    f"{SECRET_VARIABLE} needs more packages: {install_command('server')} ({error})"
                ) from None
            self._ciphers = [RecordCipher(secret) for secret in self._secrets]
        return self._ciphers


def _encode_associated_data(kind: str, name: str) -> bytes:
    return msgspec.json.encode((kind, name))
