"""The parts of the offline planner: words, times, matching, filling, planning, wording. All of it is pure."""
