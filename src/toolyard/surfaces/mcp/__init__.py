"""`/mcp`: the tools of this server for MCP clients, over HTTP or standard streams, in both eras of the protocol."""
