"""The parts of `shape_lib.refine`: from a program to its library functions and back."""
