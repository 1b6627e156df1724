"""The parts of `shape_lib.refine`: from a program to its library functions and back.

- `library` finds the functions of an operator, `stock` gets torch-mlir's own
- `inference` runs them for one operation, `arguments` translates its operands and their results
- `program_values` is what is known of the program's values, `retyping` writes it into their types
- `calls` (between the program's functions), `operations` (what there is), `value_semantics` (in place to values)
"""
