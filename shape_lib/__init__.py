"""Shapes and dtypes of the Torch dialect: how types are refined after import. Imports no torch."""
