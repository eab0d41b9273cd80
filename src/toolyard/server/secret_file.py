"""The secret that encrypts what is stored: `TOOLYARD_SECRET` or, for a store in a file, a file beside it.

A database that several servers share has readers besides them, so its secret has to be given.
"""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from toolyard.core.errors import Misconfigured
from toolyard.server.address import parse_database_path
from toolyard.stores.postgres_settings import is_postgres
from toolyard.venues.mcp.auth.sealed_records import SECRET_VARIABLE

SECRET_BYTES = 32
FILE_MODE = 0o600


def find_secret(store: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the secret of a store, and where it comes from in words. The secret is empty if there is none.

    With both a variable and a file, the variable's secret encrypts and both decrypt.
    """
    variable, file = environment.get(SECRET_VARIABLE, ""), _find_file(store)
    stored = _read_file(file) if file is not None else ""
    if variable:
        return (f"{variable},{stored}" if stored else variable), f"the variable {SECRET_VARIABLE}"
    if stored:
        return stored, f"{file}, which this server has made: keep a copy of it with the copies of the store"
    if is_postgres(store):
        return "", f"none: secrets are stored only once {SECRET_VARIABLE} is set, the same at all replicas"
    return "", f"none: secrets are stored as they are; set {SECRET_VARIABLE} to encrypt them"


def make_secret(store: str, environment: Mapping[str, str]) -> None:
    """Write a new secret beside a store in a file, readable for this user only, if there is no secret yet."""
    file = _find_file(store)
    if environment.get(SECRET_VARIABLE) or file is None or file.exists():
        return
    secret = secrets.token_urlsafe(SECRET_BYTES)
    draft = Path(f"{file}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(
            os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "w", encoding="ascii"
        ) as stream:
            stream.write(secret)
            stream.flush()
            os.fsync(stream.fileno())
        # The file appears with its content. Of two processes that start at once, one makes it and the other finds it.
        with suppress(FileExistsError):
            os.link(draft, file)
        draft.unlink()
    except OSError as error:
        reason = error.strerror or error
        raise Misconfigured(f"{file} cannot be written ({reason}): set {SECRET_VARIABLE} instead") from None


def _find_file(store: str) -> Path | None:
    database = parse_database_path(store)
    return None if database is None else Path(f"{database}.secret")


def _read_file(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise Misconfigured(f"{file} cannot be read ({error}): it encrypts what is stored") from None
