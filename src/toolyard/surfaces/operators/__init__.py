"""Routes for operators and administrators: servers, keys, runs, traces, metrics and readiness."""
