"""Where logs, claims, blobs, the catalog and keys are kept."""
