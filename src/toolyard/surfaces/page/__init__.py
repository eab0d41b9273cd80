"""The web page, built into the package."""
