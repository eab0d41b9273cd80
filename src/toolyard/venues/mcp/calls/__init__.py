"""Calls of tools on MCP servers: their content, and the questions that a server asks on the way."""
