"""Conversations for others to read: links to them, and files of them."""
