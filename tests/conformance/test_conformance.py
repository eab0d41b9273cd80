"""A short part of the official conformance suite, through Toolyard to a server behind it; `make conformance` is all."""

from pathlib import Path

from conformance.suite import Era, aggregating, checked

MODERN = ("server-stateless", "input-required-result-multiple-input-requests", "http-custom-header-server-validation")
LEGACY = ("tools-call-elicitation", "tools-call-with-logging", "tools-call-mixed-content", "resources-subscribe")


def complaints(folder: Path, era: Era, revision: str, scenarios: tuple[str, ...]) -> list[object]:
    with aggregating(folder, era) as url:
        return [check for name in scenarios for check in checked(url, name, revision, folder)]


def test_a_modern_client_sees_a_modern_server_through_us(tmp_path: Path) -> None:
    assert complaints(tmp_path, "modern", "2026-07-28", MODERN) == []


def test_a_legacy_client_sees_a_legacy_server_through_us(tmp_path: Path) -> None:
    assert complaints(tmp_path, "legacy", "2025-11-25", LEGACY) == []
