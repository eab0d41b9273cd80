"""Connections to MCP servers: transports, child processes, reconnection and extra sessions."""
