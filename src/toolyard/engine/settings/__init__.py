"""Settings that are changed while the server runs, beside those of the configuration file."""
