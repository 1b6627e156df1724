# ruff: noqa: F821
# pyright: reportUndefinedVariable=false
"""lit configuration of the IR tests; `config` and `lit_config` are what lit hands to it."""

import os
import shutil
import sys
from pathlib import Path

import lit.formats

ROOT = Path(__file__).resolve().parent.parent

config.name = "pipeline"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["python", "Inputs"]
config.test_source_root = str(ROOT / "test")
config.test_exec_root = str(ROOT / "build" / "lit")

# pipeline-opt and filecheck are those of the environment that lit runs in, whatever else PATH holds.
BIN = str(Path(sys.executable).parent)
for tool in ("pipeline-opt", "filecheck"):
    if shutil.which(tool, path=BIN) is None:
        lit_config.fatal(f"{tool} is not installed beside {sys.executable}: run pip install -e '.[test]'")
config.environment["PATH"] = os.pathsep.join([BIN, config.environment["PATH"]])
