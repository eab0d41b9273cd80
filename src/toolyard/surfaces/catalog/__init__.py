"""`/tools`, `/models`, `/providers` and `/me`: what a caller may use, and who the caller is."""
