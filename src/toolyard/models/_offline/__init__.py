"""The offline planner's parts: words, times, places of tools, matching, filling, planning, wording. All of it is pure."""
