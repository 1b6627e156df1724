"""Abstract interpretation of library functions: what a shape function says when some sizes are unknown.

`values` (what may be known, and the heap of lists), `program` (functions as read from the IR), `machine` (runs them),
`scalars` and `lists` (the operations on either).
"""
