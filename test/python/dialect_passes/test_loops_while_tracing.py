"""Loops are translated while torch.export traces, too, which replaces `min` and `max` then."""

import subprocess
import sys

PROGRAM = """
from torch._export.non_strict_utils import _override_builtin_ops
import pipeline, torch

x = torch.randn(4, 3)
with _override_builtin_ops():
    import pipeline.dialect_passes.loops.translate
first = pipeline.compile(torch.linalg.svdvals, args=(x,))
with _override_builtin_ops():
    second = pipeline.compile(torch.linalg.qr, args=(x,))
torch.testing.assert_close(first(x), torch.linalg.svdvals(x))
torch.testing.assert_close(second(x), torch.linalg.qr(x))
"""


def test_builtins_of_export() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
