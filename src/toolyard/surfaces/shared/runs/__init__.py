"""What a run looks like to clients: its answer, its stream, and what the server says about it."""
