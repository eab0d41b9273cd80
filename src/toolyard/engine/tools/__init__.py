"""The tools of a run: which exist and are offered, how arguments are checked and results are made."""
