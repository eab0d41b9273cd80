"""A run for a caller in this process: its options, its events and its result."""
