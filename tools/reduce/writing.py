"""A reduced program as a Python file, which is a model for ``pipeline compile`` and ``pipeline verify``."""

from __future__ import annotations

import base64
import re
import textwrap
from pathlib import Path

import torch

from .failure import Failure
from .program import Program

_LITERAL_ELEMENTS = 32

_FILE = '''"""Reduced from {source}: {failure}

    pipeline verify THIS_FILE
"""

import base64
from math import inf, nan

import torch
from torch import device


def tensor(dtype, shape, data):
    """A tensor from its bytes."""
    values = bytearray(base64.b64decode(data))
    return torch.frombuffer(values, dtype=dtype).reshape(shape) if values else torch.empty(shape, dtype=dtype)


class Model(torch.nn.Module):
{forward}

model = Model()
example_inputs = (
{inputs}
)
{options}'''


def text(program: Program, failure: Failure, source: str, options: dict[str, object]) -> str:
    """The file. options: what the model's file gives besides (`decompositions`), which only that file can give."""
    # Without the deletions that torch.fx adds.
    code = re.sub(r";  [\w =]+ = None", "", program.module().graph.python_code("self").src)
    inputs = "\n".join(f"    {_value(value)}," for value in program.values())
    read = ""
    if options:
        read = f"\nimport runpy\n\n_original = runpy.run_path({str(Path(source.partition('.py:')[0]).resolve())!r})\n"
        read += "".join(f"{name} = _original[{name!r}]\n" for name in options)
    message = failure.message.replace("\\", "/").replace('"""', "'''").strip().splitlines()[0][:200]
    return _FILE.format(
        source=source,
        failure=message,
        forward=textwrap.indent(code.strip(), "    ") + "\n",
        inputs=inputs,
        options=read,
    )


def _value(value: torch.Tensor) -> str:
    if value.numel() <= _LITERAL_ELEMENTS and not value.is_complex() and value.element_size() > 1:
        literal = f"torch.tensor({value.tolist()}, dtype={value.dtype})"
        return f"{literal}.reshape({tuple(value.shape)})" if value.numel() == 0 else literal
    value = value.detach().contiguous()
    data = bytes(value.flatten().view(torch.uint8).tolist())
    return f'tensor({value.dtype}, {tuple(value.shape)}, "{base64.b64encode(data).decode()}")'
