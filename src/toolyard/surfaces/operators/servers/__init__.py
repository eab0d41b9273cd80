"""`/servers`: MCP servers, their changes, and the sign-ins to them."""
