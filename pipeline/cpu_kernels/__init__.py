"""Kernels of our own for the CPU where IREE's code generation is far from the machine's peak: written in MLIR."""
