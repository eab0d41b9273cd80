"""HTTP and MCP interfaces: each parses requests, calls the engine's `Service`, and renders what it returns."""
