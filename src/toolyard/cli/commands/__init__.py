"""The commands of `toolyard`, one module each. Its `add_to(commands)` adds the parser, with the function to run."""

COMMANDS = {
    "serve": "serve tools and a model over HTTP",
    "chat": "chat in the terminal, or send one message",
    "tools": "list the tools, or call one",
    "servers": "manage the MCP servers of a running server",
    "models": "list the models that can be used on this machine",
    "mcp": "serve the tools to an MCP host over standard input and output",
    "config": "show, export and import settings",
    "keys": "create, list, rotate and revoke keys for a server",
    "access": "explain who may use a tool",
    "audit": "list and verify the audit log",
    "trace": "draw the runs of a correlation id over time",
    "backup": "copy a SQLite store to a file, also while a server is using it",
    "migrate": "create or update the tables of a PostgreSQL store, as a server does when it starts",
    "migrate-store": "copy everything of a store to another, empty one",
    "doctor": "check the set-up and print how to fix it",
}
"""What each command does. It is here, and not in the modules, since importing all of them takes half a second."""
