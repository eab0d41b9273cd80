"""Which other systems are told of every entry. It loads what tells them only when there is one to tell."""

import importlib
import logging
import os
from collections.abc import Sequence
from typing import Protocol

from toolyard.core.errors import Misconfigured, install_command
from toolyard.core.events import Entry

_log = logging.getLogger("toolyard.app")


class Exporter(Protocol):
    """Tells another system of every entry."""

    def observe(self, entry: Entry) -> None: ...

    async def close(self) -> None: ...


def find_exporters(otlp_endpoint: str, service_name: str) -> Sequence[Exporter]:
    """Return OpenTelemetry's, if a collector is configured. Needs the extra `toolyard[otel]`."""
    named = any(os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT") for signal in ("", "TRACES_"))
    off = os.environ.get("OTEL_SDK_DISABLED") == "true" or os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp"
    if not otlp_endpoint and (off or not named):
        return ()
    try:
        otel = importlib.import_module("toolyard.observability.otel")
    except ImportError as error:
        missing = f"spans need more packages: {install_command('otel')} ({error})"
        if otlp_endpoint:
            raise Misconfigured(missing) from None
        _log.warning("an OTEL_ variable names a collector, but %s", missing)
        return ()
    return (otel.to_collector(otlp_endpoint, service_name),)
