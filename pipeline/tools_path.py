"""Where IREE's command line compiler is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .errors import InternalError


@cache
def iree_compile() -> str:
    """Path of the ``iree-compile`` binary of the installed iree-base-compiler.

    The binary and not the API: as a child it may crash, and it takes options that a session refuses.
    """
    import iree.compiler

    binary = Path(iree.compiler.__path__[0]) / "_mlir_libs" / "iree-compile"
    if not binary.exists():
        raise InternalError(f"{binary} is missing; install iree-base-compiler again")
    return str(binary)
