"""Tools that Toolyard itself provides: find a tool, and read a result that was too large."""
