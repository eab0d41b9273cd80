"""Drives a conversation: the loop, its model turns and its calls."""
