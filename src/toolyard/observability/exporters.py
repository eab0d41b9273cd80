"""Exporters of entries to other systems. An exporter's module is loaded only if it is configured."""

import logging
import os
from collections.abc import Sequence
from typing import Protocol

from toolyard.core.conversation.events import Entry
from toolyard.core.errors import Misconfigured, install_command

_log = logging.getLogger("toolyard.app")


class Exporter(Protocol):
    """An observer that sends entries to another system."""

    def observe(self, entry: Entry) -> None: ...

    async def close(self) -> None: ...


def find_exporters(otlp_endpoint: str, service_name: str) -> Sequence[Exporter]:
    """Return the OpenTelemetry exporter if a collector is configured. Needs the extra `toolyard[otel]`."""
    has_endpoint = any(os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT") for signal in ("", "TRACES_"))
    is_disabled = (
        os.environ.get("OTEL_SDK_DISABLED") == "true" or os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp"
    )
    if not otlp_endpoint and (is_disabled or not has_endpoint):
        return ()
    try:
        from toolyard.observability.otel import to_collector
    except ImportError as error:
        missing = f"spans need more packages: {install_command('otel')} ({error})"
        if otlp_endpoint:
            raise Misconfigured(missing) from None
        _log.warning("an OTEL_ variable names a collector, but %s", missing)
        return ()
    return (to_collector(otlp_endpoint, service_name),)
