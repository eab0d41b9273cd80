"""Requests that bring their whole history: each starts its run once, or joins or takes up an earlier one."""
