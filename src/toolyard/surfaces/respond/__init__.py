"""`/ai/respond`: a prompt in, a stream of objects out."""
