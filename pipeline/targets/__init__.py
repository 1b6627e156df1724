"""Targets: what to compile for, with the IREE options that suit it. One file per device kind."""

from .target import Rung, Target, parse_targets

__all__ = ["Rung", "Target", "parse_targets"]
