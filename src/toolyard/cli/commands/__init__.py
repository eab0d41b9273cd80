"""The commands of `toolyard`, one file each. A command has `describe(parser)` and `run(arguments)`."""
