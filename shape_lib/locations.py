"""Source lines in MLIR locations."""

from __future__ import annotations

import re
from typing import Any

_FRAME = re.compile(r'"([^"]+)":(\d+)')


def frames(location: Any) -> list[tuple[str, int]]:
    """(file, line) of every frame of a location, from the innermost outwards; empty when it is unknown."""
    return [(file, int(line)) for file, line in _FRAME.findall(str(location)) if file != "-"]
