"""Signing in to MCP servers: OAuth tokens, the grants that people gave, and sign-ins that are under way."""
