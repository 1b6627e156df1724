"""Exceptions of the runtime room. `pipeline.errors` maps them to messages and exit codes."""


class RuntimeRoomError(Exception):
    """Base of everything that loading or calling an artifact raises on purpose."""


class ArtifactError(RuntimeRoomError):
    """The artifact or its weights cannot be used: missing, truncated, foreign, or made by other versions."""


class IncompatibleDeviceError(RuntimeRoomError):
    """The artifact is sound but this device cannot run it; the message says what the device lacks."""


class ArgumentError(RuntimeRoomError, TypeError):
    """A call's arguments do not fit: the message names the argument, what was expected and what came."""


class ExecutionError(RuntimeRoomError):
    """The device reported a failure while it ran a call."""
