"""What operators do to complex numbers, as arithmetic on their real and imaginary parts."""

from .rules import Pair, has_rule, real_of, rule_of

__all__ = ["Pair", "has_rule", "real_of", "rule_of"]
