"""The commands of `toolyard`, one module each. Its `add_to(commands)` adds the parser, with the function to run."""
