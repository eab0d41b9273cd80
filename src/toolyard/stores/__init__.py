"""Where logs, claims and blobs are kept."""
