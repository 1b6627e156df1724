"""Kernels as loops in the IR: written in Python over the elements of matrices, compiled for every target."""
