"""What every HTTP surface needs: middleware, request bodies, errors, server-sent events, idempotency, OpenAPI."""
