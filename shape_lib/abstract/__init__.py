"""Abstract interpretation of library functions: what a shape function says when some sizes are unknown."""
