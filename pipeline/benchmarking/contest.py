"""The rounds: every competitor in a process of its own, timed in turns."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .contestant import Failed, Peak, Prepared, Round, serve
from .memory import TreePeak, process_tree
from .results import Entrant
from .workload import Subject

Report = Callable[[str], None]


@dataclass(frozen=True)
class Rules:
    """rounds: how many. seconds: how long a competitor is called in each, at least once. patience: seconds that one
    may take to get ready."""

    rounds: int = 10
    seconds: float = 0.3
    patience: float = 1800.0


def compete(subject: Subject, names: Sequence[str], rules: Rules, report: Report) -> list[Entrant]:
    """Prepares the competitors one after the other, so that nobody's compiler disturbs another's, then times them.

    Who waits for its turn is stopped: threads that spin would take the others' time.
    """
    with contextlib.ExitStack() as stack:
        children = []
        for name in names:
            report(f"{name}: getting ready")
            children.append(stack.enter_context(_Child.started(subject, name)))
            children[-1].wait_until_ready(rules.patience)
        ready = [child for child in children if child.ready]
        for number in range(rules.rounds):
            report(f"round {number + 1} of {rules.rounds}")
            # Forth and back: what runs first finds other things in the caches.
            ready.reverse()
            for child in ready:
                child.play(rules)
        for child in ready:
            child.finish()
        return [child.entrant() for child in children]


@dataclass
class _Child:
    name: str
    process: Any
    connection: Any
    log: Path
    prepared: Prepared | None = None
    failed: Failed | None = None
    preparing: int = 0
    running: int = 0
    rounds: list[Round] = field(default_factory=list)

    @classmethod
    @contextlib.contextmanager
    def started(cls, subject: Subject, name: str) -> Iterator[_Child]:
        """A new process, which ends with the block."""
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        with tempfile.TemporaryDirectory(prefix="pipeline-") as folder, _threads(subject.threads):
            log = Path(folder) / "log"
            process = context.Process(target=serve, args=(there, subject, name, log), daemon=False)
            process.start()
            there.close()
            try:
                yield cls(name, process, here, log)
            finally:
                _end(process)

    @property
    def ready(self) -> bool:
        """Whether it can be timed."""
        return self.prepared is not None and self.failed is None

    def wait_until_ready(self, patience: float) -> None:
        peak = TreePeak(self.process.pid)
        answer = self._answer(patience)
        self.preparing = peak.end()
        if isinstance(answer, Prepared):
            self.prepared = answer
            self._stop()
        else:
            self.failed = answer

    def play(self, rules: Rules) -> None:
        """One round."""
        if not self.ready:
            return
        self._go_on()
        self.connection.send(rules.seconds)
        answer = self._answer(rules.patience)
        if isinstance(answer, Round):
            self.rounds.append(answer)
            self._stop()
        else:
            self.failed = answer

    def finish(self) -> None:
        """Asks how much memory it took."""
        if not self.ready:
            return
        self._go_on()
        self.connection.send(None)
        answer = self._answer(60.0)
        self.running = answer.bytes if isinstance(answer, Peak) else 0
        self.process.join()

    def entrant(self) -> Entrant:
        """What is known of it now."""
        prepared = self.prepared or Prepared(0.0, 0.0, None, "")
        return Entrant(
            name=self.name,
            failure=self.failed.why if self.failed else None,
            absent=self.failed is not None and self.failed.absent,
            problem=prepared.problem,
            error=prepared.error,
            note=prepared.note,
            compile_seconds=prepared.seconds,
            compile_bytes=self.preparing,
            run_bytes=self.running,
            wall=[item.wall for item in self.rounds],
            cpu=[item.cpu for item in self.rounds],
        )

    def _answer(self, patience: float) -> Any:
        try:
            if self.connection.poll(patience):
                return self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            return Failed(f"died with status {self.process.exitcode}: {self._last_words()}")
        _end(self.process)
        return Failed(f"not done after {patience:.0f} s")

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        return (lines or ["nothing said"])[-1][:200]

    def _stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGSTOP)

    def _go_on(self) -> None:
        os.killpg(self.process.pid, signal.SIGCONT)


def _end(process: Any) -> None:
    """With its compilers, which are in sessions of their own."""
    for pid in process_tree(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.join()


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Libraries read how many threads to take when they are loaded, before anyone could tell them."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, str(count)))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
