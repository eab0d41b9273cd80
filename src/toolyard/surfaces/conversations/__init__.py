"""`/conversations`: make and change conversations, chat in them, and follow what happens."""
