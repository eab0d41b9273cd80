"""Secrets in files: Docker and Kubernetes mount them, and `OPENAI_API_KEY_FILE=/run/secrets/key` names the file."""

import re
from collections.abc import MutableMapping
from pathlib import Path

from toolyard.core.errors import Misconfigured

# Not every secret: a cloud's own `AWS_WEB_IDENTITY_TOKEN_FILE`, for example, is for the programs that know it.
_NAME = re.compile(r"(\w+_API_KEY|\w+_SECRET|TOOLYARD_MODEL_KEY|PGPASSWORD)_FILE")
MAX_BYTES = 64 * 1024


def read_secret_files(environment: MutableMapping[str, str]) -> None:
    """Replace each variable `NAME_FILE` of a secret with `NAME`, whose value is the file's content.

    An empty file is a secret that is not set. Raises Misconfigured if a file cannot be read, or if both are set.
    """
    for variable in [name for name in environment if _NAME.fullmatch(name)]:
        name, path = variable.removesuffix("_FILE"), environment.pop(variable)
        if environment.get(name):
            raise Misconfigured(f"{name} and {variable} are both set: leave one of them out")
        if path and (secret := _read(variable, path)):
            environment[name] = secret


def _read(variable: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES or b"\0" in content:
            raise ValueError(f"it is no secret, but longer than {MAX_BYTES} bytes or binary")
        return content.decode("utf-8").strip("\r\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Misconfigured(f"the file of {variable} cannot be read: {path}: {reason}") from error
