"""Shrinks a failing program to the fewest operators that still fail in the same way.

``failure`` tells how a program fails, in a process that may die; ``program`` cuts graphs; ``search`` decides which
cuts to try; ``writing`` prints what is left as a Python file.
"""
