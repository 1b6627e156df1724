"""How a program fails: compiled and compared with eager in a process of its own, which may crash or hang."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from pipeline.compiler import Options

from .program import Program

_fork: Any = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Failure:
    """kind: what must stay the same while the program shrinks. message: of this very program."""

    kind: str
    message: str


def failure(program: Program, options: Options, timeout: float) -> Failure | None:
    """How `program` fails; None where it is right, or cannot even run in eager.

    timeout: seconds for one compiler process, which `options` limit themselves; all together get three times that.
    """
    ours, theirs = _fork.Pipe()
    process = _fork.Process(target=_serve, args=(theirs, program, options), daemon=False)
    process.start()
    theirs.close()
    try:
        if not ours.poll(3 * timeout):
            return Failure("hang", f"no end after {3 * timeout:g} s")
        return ours.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return Failure(f"crash {name}", f"the process that ran the program ended: {name}")
    finally:
        process.kill()
        process.join()
        ours.close()


def _serve(pipe: Connection, program: Program, options: Options) -> None:
    import torch

    torch.set_num_threads(1)
    with open(os.devnull, "w") as sink:
        os.dup2(sink.fileno(), 2)
    pipe.send(_judge(lambda: program.module()(*program.values()), program, options))


def _judge(eager: Callable[[], Any], program: Program, options: Options) -> Failure | None:
    from pipeline.api import capture_checked
    from pipeline.compiler import compile_program
    from pipeline.entry_points import EntrySpec
    from pipeline.errors import InternalError, UnsupportedError
    from pipeline.runtime import Executable
    from pipeline.verify import verify

    try:
        eager()
    except Exception:
        return None
    entries = {"main": EntrySpec(program.values())}
    try:
        artifact = compile_program(capture_checked(program.module(), entries, options), options)
        wrong = [item for item in verify(program.module(), entries, Executable(artifact)) if not item.right]
    except UnsupportedError as error:
        return Failure(
            f"unsupported: {', '.join(sorted(item.operator for item in error.operators))}", str(error)
        )
    except InternalError as error:
        return Failure(f"compiler failure: {_gist(str(error))}", str(error))
    except Exception as error:
        return Failure(type(error).__name__, f"{type(error).__name__}: {error}")
    return Failure("wrong value", f"{wrong[0].name}: {wrong[0].problem}") if wrong else None


def _gist(message: str) -> str:
    """The message without what a smaller program changes: places, names and sizes of values."""
    lines = [line for line in message.splitlines() if "error" in line] or message.splitlines()[:1]
    text = re.sub(r"<[^<>]*>|[%#@][\w.]+|\"[^\"]*\"|/\S+", "", lines[0].partition(": error: ")[2] or lines[0])
    return re.sub(r"\d+", "N", text)[:120]
