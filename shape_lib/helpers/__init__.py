"""Parts that shape and dtype functions share, in the Python that the importer reads: no torch, ints and lists only.

A helper raises AssertionError where PyTorch refuses such arguments.
"""
