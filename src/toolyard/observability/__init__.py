"""What happened, for people and other systems: logs, traces, metrics, figures and recorded turns.

It reads committed entries. It decides nothing, and nothing waits for it.
"""
