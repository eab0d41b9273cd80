"""`/conversations`: create and change conversations, chat in them, and follow their events."""
