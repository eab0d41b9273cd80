"""Places where tools run."""
