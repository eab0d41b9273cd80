"""Who may do what: callers, sessions, shared links, presets, and the check of each call."""
