"""What processes that share a store do for each other: ownership, takeover, forwarded commands."""
