"""Toolyard as a server: its configuration, what a configuration wires together, and the socket it listens on."""
