"""Code that the wires share: arguments, images, files, names of tools, options, and the cache of encoded items."""
