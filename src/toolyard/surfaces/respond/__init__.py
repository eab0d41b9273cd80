"""`/ai/respond`: answer a prompt as a stream of objects."""
