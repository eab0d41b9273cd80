"""Logs, traces, metrics, statistics and recorded turns, all made from stored entries.

The engine neither waits for this package nor depends on its results.
"""
