"""A conversation: its events and commands, the fold of its log, and the pure functions that decide."""
