"""Toolyard as a server: the configuration, the wiring that is built from it, and the socket that the server opens."""
