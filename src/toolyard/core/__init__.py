"""The domain: items, events, state, ports, and the pure functions that decide. No I/O and no clock."""
