"""Rules that judge a call: allow, ask or deny."""
