"""Devices: opening them by name, and refusing an artifact that this one would run wrongly or not at all."""

from __future__ import annotations

import atexit
import re
import threading
import weakref
from dataclasses import dataclass
from functools import cache
from typing import Any

import iree.runtime as iree
from iree.runtime import flags

from . import cpu_features
from .errors import IncompatibleDeviceError
from .manifest import Manifest

SMALL_MODEL_BYTES = 1 << 20
"""Below this many bytes of weights a call is too short to gain from waking other threads."""

# Compiled code keeps up to 1 MiB of a dispatch's scratch on the stack (see the CPU target's options), and
# the task system's workers start with far less: without this they die by SIGSEGV.
WORKER_STACK_BYTES = 8 << 20

_KINDS = {"local-sync": "cpu", "local-task": "cpu", "cpu": "cpu", "vulkan": "vulkan", "cuda": "cuda"}


@dataclass(frozen=True)
class Device:
    """An open device. kind: "cpu", "vulkan" or "cuda"; hal: IREE's handle; instance: the VM it belongs to."""

    kind: str
    uri: str
    hal: Any
    instance: Any

    @property
    def is_host(self) -> bool:
        """Whether its memory is the host's, so that tensors can be shared instead of copied."""
        return self.kind == "cpu"


@cache
def vm_instance() -> Any:
    """The process's one VM instance."""
    return iree.VmInstance()


@atexit.register
def _close() -> None:
    """IREE's bindings complain on screen about what lives longer than they do, and modules end in any order."""
    _hosts.clear()
    vm_instance.cache_clear()


def kind_of(name: str) -> str:
    """The kind of a device name or URI. Raises IncompatibleDeviceError for an unknown one."""
    kind = _KINDS.get(name.partition("://")[0])
    if kind is None:
        raise IncompatibleDeviceError(
            f"unknown device '{name}'; use cpu, vulkan or cuda, or an IREE URI such as local-sync or vulkan://0"
        )
    return kind


def open_for(manifest: Manifest, name: str | None, where: str) -> Device:
    """The device `name` (default: the artifact's first target), checked against what the artifact needs.

    Raises IncompatibleDeviceError when there is no such device or it lacks something.
    """
    name = name or str(manifest.targets[0]["device"])
    kind = kind_of(name)
    target = next((t for t in manifest.targets if t["device"] == kind), None)
    if target is None:
        kinds = ", ".join(t["device"] for t in manifest.targets)
        raise IncompatibleDeviceError(
            f"{where} was compiled for {kinds}, not for {kind}; load it there or compile with --target {kind}"
        )
    if kind == "cpu":
        # The check comes before anything is loaded: a mismatch is otherwise a SIGILL.
        _check_cpu(target, where)
    uri = _uri(name, manifest)
    device = _open(uri)
    if kind == "vulkan":
        _check_vulkan(target, uri, where)
    return device


def _uri(name: str, manifest: Manifest) -> str:
    if name != "cpu":
        return name
    return "local-sync" if manifest.weights.nbytes < SMALL_MODEL_BYTES else "local-task"


_devices: weakref.WeakValueDictionary[str, Device] = weakref.WeakValueDictionary()
_hosts: list[Device] = []
_opening = threading.Lock()


def _open(uri: str) -> Device:
    """The open device `uri`. One with memory of its own is closed with the last executable on it.

    Its driver may keep threads busy: Mesa's llvmpipe waits for work in a loop.
    """
    with _opening:
        device = _devices.get(uri)
        if device is None:
            device = _devices[uri] = _opened(uri)
            if device.is_host:
                _hosts.append(device)
        return device


def _opened(uri: str) -> Device:
    if uri.startswith("local-task"):
        flags.parse_flags(f"--task_worker_stack_size={WORKER_STACK_BYTES}")
    try:
        hal = iree.get_device(uri, cache=False)
    except Exception as error:
        raise IncompatibleDeviceError(
            f"no device '{uri}' on this machine ({_first_line(error)}); "
            "check that its driver is installed and that the device is visible"
        ) from error
    return Device(kind_of(uri), uri, hal, vm_instance())


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _check_cpu(target: dict[str, Any], where: str) -> None:
    architecture = target["architecture"]
    if architecture != cpu_features.host_architecture():
        raise IncompatibleDeviceError(
            f"{where} was compiled for {architecture}, this machine is {cpu_features.host_architecture()}"
        )
    lacking = cpu_features.missing(target["features"])
    if lacking:
        raise IncompatibleDeviceError(
            f"{where} was compiled for the CPU '{target['cpu']}'; this CPU lacks {', '.join(lacking)}; "
            "compile with --cpu generic, or for this CPU"
        )


def _check_vulkan(target: dict[str, Any], uri: str, where: str) -> None:
    """Refuses a target whose types or subgroups the device lacks: it would compute wrong numbers, silently."""
    info = _vulkan_info(uri)
    lacking = [name for name in target["features"] if f"{name}=no" in info]
    if lacking:
        raise IncompatibleDeviceError(
            f"{where} uses tensors of types that need {', '.join(lacking)}, which this Vulkan device lacks; "
            "compile the model with other dtypes, or load it on another device"
        )
    if not target["subgroup_operations"]:
        return
    low, high = _subgroup_range(info, uri)
    if any(low <= size <= high for size in target["subgroup_sizes"]):
        return
    sizes = " or ".join(map(str, target["subgroup_sizes"]))
    offered = str(low) if low == high else f"{low} to {high}"
    raise IncompatibleDeviceError(
        f"{where} was compiled for the Vulkan target '{target['architecture']}' with subgroups of {sizes}; "
        f"this device forms subgroups of {offered} and would compute wrong results; "
        "compile with the portable default target, or with one that fits this device"
    )


def _vulkan_info(uri: str) -> str:
    driver = iree.get_driver("vulkan")
    index = re.search(r"://(\d+)", uri)
    devices = driver.query_available_devices()
    return driver.dump_device_info(devices[int(index[1]) if index else 0]["device_id"])


def _subgroup_range(info: str, uri: str) -> tuple[int, int]:
    low, high = (re.search(rf"{key}SubgroupSize=(\d+)", info) for key in ("min", "max"))
    if low is None or high is None:
        raise IncompatibleDeviceError(f"the Vulkan device {uri} does not state its subgroup sizes")
    return int(low[1]), int(high[1])
