"""Masks the credentials in addresses and command lines. Pure. No other module knows where they carry them."""

import re
from collections.abc import Iterable
from functools import lru_cache

MASK = "***"
_ADDRESS = re.compile(r"\b(?P<scheme>[a-z][a-z0-9+.-]{0,20})://[^\s'\"<>`]+", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/?#]*@")
"""Up to the last @ of the authority, as a password may contain one."""
_DATABASE_USERINFO = re.compile(r"(?<=://).*@", re.DOTALL)
"""Up to the last @ of all: people forget to encode a / or a # in the password of a database."""
_DATABASE_SCHEMES = frozenset({"postgresql", "postgres"})
_PARAMETER = re.compile(r"(?<=[?&#])(?P<name>[^=&#?]{1,100})=[^&#]+")
_QUERY_OR_FRAGMENT = re.compile(r"[?#]")
_SECRET_NAME = re.compile(r"key|token|secret|pass|pwd|auth|credential|signature|\bsig\b|\bcode\b", re.IGNORECASE)
_SCHEMES_WITH_PARAMETERS = frozenset({"http", "https", "ws", "wss"}) | _DATABASE_SCHEMES


def mask_addresses(text: str, *, every_parameter: bool = False) -> str:
    """Return the text with user names, passwords and secret parameters of its addresses replaced by `***`.

    `every_parameter` masks the values of all parameters, whatever their names: for addresses of a configuration, where
    a value tells a reader little and may be secret under any name.
    """
    return _ADDRESS.sub(lambda address: _mask_address(address, every_parameter), text) if "://" in text else text


@lru_cache(maxsize=256)  # each turn names its model
def mask_model(name: str) -> str:
    """Return the name of a model, which may be an address, without what may be secret in it."""
    return mask_addresses(name, every_parameter=True)


def shorten_address(address: str) -> str:
    """Return an address without credentials, query and fragment: for an error, also if it is not a valid address."""
    bare = _QUERY_OR_FRAGMENT.split(address, maxsplit=1)[0]
    scheme, mark, host_and_path = bare.rpartition("://")
    return f"{scheme}{mark}{host_and_path.rpartition('@')[2]}"


def mask_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments of a command with credentials replaced by `***`: `--token=x`, `--token x`, `API_KEY=x`."""
    masked: list[str] = []
    is_value = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        is_secret = _SECRET_NAME.search(name) is not None and "://" not in name
        if is_value and not argument.startswith("-"):
            masked.append(MASK)
        elif is_secret and equals:
            masked.append(f"{name}={MASK}")
        else:
            masked.append(mask_addresses(argument, every_parameter=True))
        is_value = is_secret and not equals and argument.startswith("-")
    return tuple(masked)


def _mask_address(address: re.Match[str], every_parameter: bool) -> str:
    scheme = address["scheme"].lower()
    userinfo = _DATABASE_USERINFO if scheme in _DATABASE_SCHEMES else _USERINFO
    masked = userinfo.sub(f"{MASK}@", address.group())
    if scheme not in _SCHEMES_WITH_PARAMETERS:
        return masked

    def mask_value(parameter: re.Match[str]) -> str:
        secret = every_parameter or _SECRET_NAME.search(parameter["name"])
        return f"{parameter['name']}={MASK}" if secret else parameter.group()

    return _PARAMETER.sub(mask_value, masked)
