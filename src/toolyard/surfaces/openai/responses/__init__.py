"""`/v1/responses`: a response is a run, and its id names the conversation as well."""
