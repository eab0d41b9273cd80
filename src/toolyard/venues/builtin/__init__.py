"""Tools that Toolyard itself brings: find a tool, and read a result that was too large."""
