"""Credentials of addresses are hidden wherever they stand, and nothing else is changed."""

import pytest

from toolyard.core.masking import mask_addresses, mask_arguments
from toolyard.observability.telemetry import mask_secrets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no address: a@b?key=1", "no address: a@b?key=1"),
        ("https://host/a?q=milk&page=2#top", "https://host/a?q=milk&page=2#top"),
        ("see https://u:p@host/a, then go", "see https://***@host/a, then go"),
        ("https://u:p@ss@host:8080/a@b", "https://***@host:8080/a@b"),
        ("postgresql://u:p@db/x?sslmode=require", "postgresql://***@db/x?sslmode=require"),
        ("postgresql://u:p/q#r?s@db/x?user=me", "postgresql://***@db/x?user=me"),
        ("https://h/?access_token=x&X-Amz-Signature=y&n=1", "https://h/?access_token=***&X-Amz-Signature=***&n=1"),
        ("'https://h/cb#access_token=x' failed", "'https://h/cb#access_token=***' failed"),
    ],
)
def test_only_credentials_are_hidden(text: str, expected: str) -> None:
    assert mask_addresses(text) == expected
    assert mask_secrets(text) == expected


def test_in_a_configuration_every_parameter_is_hidden() -> None:
    assert mask_addresses("https://h/a?q=milk&b=#c", every_parameter=True) == "https://h/a?q=***&b=#c"
    assert mask_addresses("sqlite:///x.db?synchronous=FULL", every_parameter=True) == "sqlite:///x.db?synchronous=FULL"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--token=abc", "--port=80"], ["--token=***", "--port=80"]),
        (["--api-key", "abc", "--verbose"], ["--api-key", "***", "--verbose"]),
        (["--password", "--verbose"], ["--password", "--verbose"]),
        (["run", "-e", "GITHUB_TOKEN=abc", "-e", "LANG=C"], ["run", "-e", "GITHUB_TOKEN=***", "-e", "LANG=C"]),
        (["https://a:b@host/x?key=1"], ["https://***@host/x?key=***"]),
        (["-y", "@scope/server-auth", "/data"], ["-y", "@scope/server-auth", "/data"]),
    ],
)
def test_credentials_in_the_arguments_of_a_command_are_masked(arguments: list[str], shown: list[str]) -> None:
    assert list(mask_arguments(arguments)) == shown
