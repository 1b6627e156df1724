"""Operator conformance: torch's own samples (OpInfo) through the compiler, compared with eager PyTorch.

``python -m pipeline.tools.conformance`` is the command (`__main__`). One module per noun: `cases` (what to run),
`programs` (a sample as a module), `judge` (right or wrong), `execution` (one case, start to end), `workers`
(processes that may die), `records` (JSON lines), `denominator` (which operators count), `page` (docs/operators.md).
"""
