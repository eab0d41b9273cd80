"""The tools that MCP servers list: their definitions, their names here, and which of them are accepted."""
