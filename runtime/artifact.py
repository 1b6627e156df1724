"""An artifact on disk: the `.vmfb`, the weights beside it, and the manifest inside it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import zipfile
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import iree.runtime as iree

from . import weights as weight_files
from .device import vm_instance
from .errors import ArtifactError
from .manifest import REFLECTION_KEY, Manifest, parse


@dataclass(frozen=True)
class Artifact:
    """A readable artifact.

    vmfb: path of the compiled module. weights: path of the `.irpa`, None when the weights are inside.
    owner: keeps a temporary folder alive as long as the artifact that lives in it.
    """

    vmfb: Path
    weights: Path | None
    manifest: Manifest
    owner: Any = field(default=None, compare=False, repr=False)

    def save(self, path: str | os.PathLike[str], *, move: bool = False) -> list[Path]:
        """Copies the artifact to `path` and its weights beside it; each file appears whole or not at all.

        move: this artifact is not used any more, so gigabytes of weights need no second copy on the same disk.
        Returns the files written, weights first: a reader that finds the `.vmfb` finds its weights.
        """
        target = Path(path)
        written = []
        if self.weights is not None:
            written.append(write_whole(self.weights, weights_path(target), move))
        written.append(write_whole(self.vmfb, target, move))
        return written


def weights_path(vmfb: Path) -> Path:
    """Where the external weights of `vmfb` lie: the same name with the suffix `.irpa`."""
    return vmfb.with_suffix(".irpa")


def open_artifact(
    path: str | os.PathLike[str], *, weights: str | os.PathLike[str] | None = None, owner: Any = None
) -> Artifact:
    """Reads the manifest of `path` and finds its weights; needs no device.

    weights: another `.irpa` than the one beside the artifact.
    Raises ArtifactError for a file that is missing, truncated, foreign, or made by other versions, and
    for weights that are missing or do not fit.
    """
    vmfb = Path(path)
    manifest = read_manifest(vmfb)
    found = _find_weights(vmfb, manifest, weights)
    if found is not None:
        weight_files.check(found, manifest.weights.table)
    return Artifact(vmfb, found, manifest, owner)


def read_manifest(vmfb: Path) -> Manifest:
    """The manifest inside `vmfb`. Raises ArtifactError as `open_artifact` does."""
    where = str(vmfb)
    if not vmfb.is_file():
        raise ArtifactError(f"{where}: no such file")
    _check_whole(vmfb)
    try:
        module = iree.VmModule.mmap(vm_instance(), where)
    except Exception as error:
        raise ArtifactError(
            f"{where}: IREE {_installed_iree()} cannot read it; it is damaged or was made by another "
            "version; compile it again with the installed version"
        ) from error
    for name in module.function_names:
        function = module.lookup_function(name)
        text = function.reflection.get(REFLECTION_KEY) if function is not None else None
        if text is not None:
            manifest = parse(text, where)
            _check_version(manifest, where)
            return manifest
    raise ArtifactError(
        f"{where}: not made by pipeline (it has no manifest); run it with IREE's own iree-run-module"
    )


def _check_whole(vmfb: Path) -> None:
    """A .vmfb is also a zip, whose end and checksums show damage before IREE maps (and trusts) its contents."""
    try:
        with zipfile.ZipFile(vmfb) as archive:
            damaged = archive.testzip()
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise ArtifactError(
            f"{vmfb}: not a complete .vmfb (truncated, or another kind of file); compile it again"
        ) from error
    if damaged is not None:
        raise ArtifactError(f"{vmfb}: damaged (the checksum of {damaged} is wrong); compile it again")


def _installed_iree() -> str:
    try:
        return version("iree-base-runtime")
    except PackageNotFoundError:
        return "(version unknown)"


def _check_version(manifest: Manifest, where: str) -> None:
    made_by, installed = manifest.versions.get("iree", "(version unknown)"), _installed_iree()
    if made_by.split(".")[:2] != installed.split(".")[:2]:
        raise ArtifactError(
            f"{where}: compiled by IREE {made_by}, this is the runtime of IREE {installed}; "
            f"compile it again, or install iree-base-runtime=={made_by}"
        )


def _find_weights(vmfb: Path, manifest: Manifest, weights: str | os.PathLike[str] | None) -> Path | None:
    if manifest.weights.storage != "external":
        if weights is not None:
            raise ArtifactError(
                f"{vmfb}: its weights are {_where(manifest)}, so it takes no weights file; "
                "compile with --weights external to exchange weights without compiling"
            )
        return None
    found = Path(weights) if weights is not None else weights_path(vmfb)
    if not found.is_file():
        raise ArtifactError(
            f"{found}: no such weights file; {vmfb.name} keeps its weights in a .irpa beside it, "
            "move both together or name it with --weights"
        )
    return found


def _where(manifest: Manifest) -> str:
    return "inside the .vmfb" if manifest.weights.storage == "inline" else "none"


def write_whole(source: Path, target: Path, move: bool) -> Path:
    """Goes through a temporary file in the target's folder, so that no half-written file has its name."""
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise ArtifactError(f"{target}: cannot be written ({error.strerror})") from error
    os.close(handle)
    try:
        _fill(Path(temporary), source, move)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except OSError as error:
        raise ArtifactError(f"{target}: cannot be written ({error.strerror})") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    return target


def _fill(temporary: Path, source: Path, move: bool) -> None:
    if move:
        temporary.unlink()
        with contextlib.suppress(OSError):
            os.link(source, temporary)
            return
    shutil.copyfile(source, temporary)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
