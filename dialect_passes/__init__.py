"""Passes over the Torch dialect and linalg, their registry and pipeline parser, and the operators' entries."""
