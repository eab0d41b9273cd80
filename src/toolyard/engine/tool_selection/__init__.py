"""Which tools a turn offers its model: by caller, by search setting, and by size where there are too many."""
