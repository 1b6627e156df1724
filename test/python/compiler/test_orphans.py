"""Compiler processes end with the process that asked for them."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

HANGS = """
import json, pathlib, sys, time
from pipeline import worker
worker._TASKS["hang"] = lambda folder, job: (pathlib.Path(folder, "started").touch(), time.sleep(600))
worker.main(sys.argv[1])
"""
STARTS = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], start_new_session=True).wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent death signal is Linux's")
def test_a_hanging_pass_ends_with_its_compilation(tmp_path):
    (tmp_path / "job.json").write_text(json.dumps({"task": "hang"}))
    compilation = subprocess.Popen([sys.executable, "-c", STARTS, HANGS, str(tmp_path)])
    while not (tmp_path / "started").exists():
        assert compilation.poll() is None
        time.sleep(0.05)
    children = subprocess.run(
        ["pgrep", "-P", str(compilation.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    compilation.kill()
    compilation.wait()
    _wait_for_the_end_of(children)
    assert len(children) == 1


RUNS_A_COMMAND = """
import pathlib, sys
from pipeline import child
child.run(["sleep", "600"], pathlib.Path(sys.argv[1]), child.Limits())
"""


@pytest.mark.skipif(
    shutil.which("setpriv") is None, reason="setpriv (util-linux) ties the command to its parent"
)
def test_a_command_ends_with_a_killed_compilation(tmp_path):
    compilation = subprocess.Popen([sys.executable, "-c", RUNS_A_COMMAND, str(tmp_path)])
    children: list[str] = []
    while not children:
        assert compilation.poll() is None
        time.sleep(0.05)
        found = subprocess.run(
            ["pgrep", "-x", "-P", str(compilation.pid), "sleep"], capture_output=True, text=True, check=False
        )
        children = found.stdout.split()
    compilation.kill()
    compilation.wait()
    _wait_for_the_end_of(children)


def _wait_for_the_end_of(children: list[str]) -> None:
    deadline = time.monotonic() + 30
    while any(_runs(int(child)) for child in children):
        assert time.monotonic() < deadline, "a child is still there"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as status:
            return status.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
