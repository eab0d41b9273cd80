"""AES-256-GCM with a key that HKDF derives from a secret. Only this module imports `cryptography`."""

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE_BYTES = 12


class RecordCipher:
    def __init__(self, secret: str) -> None:
        derivation = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"toolyard sealed records 1")
        self._cipher = AESGCM(derivation.derive(secret.encode()))

    def encrypt(self, body: bytes, associated_data: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, body, associated_data)

    def decrypt(self, sealed: bytes, associated_data: bytes) -> bytes | None:
        """Return the content; None if it was changed, or encrypted with other data or another secret."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], associated_data)
        except (InvalidTag, ValueError):
            return None
