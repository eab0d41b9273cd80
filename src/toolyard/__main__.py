"""`python -m toolyard` is the `toolyard` command."""

from toolyard.cli import main

main()
