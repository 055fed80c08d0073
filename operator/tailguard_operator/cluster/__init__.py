"""The I/O edge: watches, reads the world, and writes what `plan` decided."""
