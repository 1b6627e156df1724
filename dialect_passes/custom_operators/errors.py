"""Exceptions of custom operators. `pipeline.errors` maps them to messages and exit codes."""


class CustomOperatorError(Exception):
    """Base of everything that declaring, checking or differentiating a custom operator raises on purpose."""


class DeclarationError(CustomOperatorError, ValueError):
    """A declaration cannot be used; the message names the operator, the argument and what to write instead."""


class MeaningError(CustomOperatorError, TypeError):
    """An operator's meaning gave back something else than its return hint says."""


class GradientError(CustomOperatorError, RuntimeError):
    """A gradient was asked of an operator that has none, or its hand-written backward gave something unfit."""


class SampleError(CustomOperatorError, TypeError):
    """A sample given to `check` does not fit the operator's arguments."""


class Unavailable(Exception):
    """Raised by the compiler that `check` uses for a target that this machine cannot run; the message says why."""


class CheckError(CustomOperatorError, AssertionError):
    """`check` found that an operator's parts do not agree; `report` holds all of its rows."""

    def __init__(self, report: object) -> None:
        super().__init__(str(report))
        self.report = report
