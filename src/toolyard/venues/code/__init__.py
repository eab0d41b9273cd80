"""Runs programs that the model writes, in worker processes without files, network or environment."""

from toolyard.venues.code.definition import RUN_CODE
from toolyard.venues.code.venue import CodeVenue

__all__ = ["RUN_CODE", "CodeVenue"]
