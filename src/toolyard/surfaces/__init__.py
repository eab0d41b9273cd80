"""Wire protocols: parse in, render out."""
