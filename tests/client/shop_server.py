"""The app's own tools as an MCP server that is started as a child process."""

from mcp.server import MCPServer

server = MCPServer("screens")


@server.tool()
def open_checkout() -> str:
    """Open the checkout."""
    return "checkout is open"


@server.tool()
def search_products(query: str) -> str:
    """Find a page; its name is taken by the shop's server."""
    return f"page for {query}"


if __name__ == "__main__":
    server.run()
