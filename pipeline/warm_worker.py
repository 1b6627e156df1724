"""A process that has torch-mlir and IREE loaded already and forks a child for each job of `pipeline.worker`.

Starting a Python that loads both costs as much as compiling a small model. A child forked here has them at once, and
may crash, hang or be killed like any other: this process only waits for it, one job at a time. It ends with the
process that started it, or when it had nothing to do for a while.

    in:   {"folder": ..., "memory": bytes, "environment": {...}}
    out:  {"pid": ...}, and when the child ended {"code": ...}
"""

from __future__ import annotations

import json
import os
import resource
import select
import sys
import traceback
from typing import Any

from . import worker

_IDLE_SECONDS = 120.0


def main() -> None:
    """Serves requests from standard input until there are none."""
    worker.die_with_parent()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    worker.preload()
    while select.select([0], [], [], _IDLE_SECONDS)[0]:
        line = sys.stdin.buffer.readline()
        if not line:
            return
        pid = os.fork()
        if pid == 0:
            _run(json.loads(line))
        print(json.dumps({"pid": pid}), file=answers)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), file=answers)


def _run(request: dict[str, Any]) -> None:
    """In the child; never returns. Its session is its own, so that all it starts can be killed with it."""
    code = 1
    try:
        os.setsid()
        os.chdir(request["folder"])
        _redirect("output.txt")
        resource.setrlimit(resource.RLIMIT_DATA, (request["memory"], request["memory"]))
        os.environ.clear()
        os.environ.update(request["environment"])
        worker.main(request["folder"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect(log: str) -> None:
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (sink, 1), (sink, 2)):
        os.dup2(source, target)


if __name__ == "__main__":
    main()
