"""The kinds of a model's failure, as wires classify what their providers answer. Pure.

A failure whose type is not listed here, such as `model_error`, is one of this server's configuration or of the request.
"""

RATE_LIMITED = "rate_limited"
QUOTA_EXCEEDED = "quota_exceeded"
CONTENT_FILTER = "content_filter"
TOO_LARGE = "too_large"
"""The request exceeds the model's context window."""
UNAVAILABLE = "unavailable"
TIMEOUT = "timeout"
RETRYABLE_ERROR_TYPES = frozenset({RATE_LIMITED, UNAVAILABLE, TIMEOUT})
"""Failures that pass by themselves: the same request may succeed a little later."""
BUDGET_EXCEEDED = "budget_exceeded"
"""A budget of this server has no room for the request, which was not sent."""
WAITS_UNTIL = "waits_until"
"""The name of the detail that says until when the run waits for room in the budget, instead of ending."""
INTERRUPTED = "interrupted"
"""The name of the detail that says that the provider may have worked on the reply that was lost, and charge for it."""
HOSTED_CALL = "hosted_call"
"""The name of the detail that says that the provider had begun to run a tool of its own in the turn that failed."""
