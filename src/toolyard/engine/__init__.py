"""The loop and what it stands on: journal, workers, registry, service."""
