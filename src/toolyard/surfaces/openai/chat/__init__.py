"""`POST /v1/chat/completions`: a request that brings its whole history, answered as JSON or as a stream."""
