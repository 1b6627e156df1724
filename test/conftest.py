"""What all Python tests share: an environment without network, and when Vulkan tests run, or that they do not."""

import functools
import os
import subprocess
import sys

import pytest

# Before anything imports torch or transformers. One thread per worker: the workers share the cores.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

LIST_VULKAN_DEVICES = """
import iree.runtime
for device in iree.runtime.get_driver("vulkan").query_available_devices():
    print(device["name"])
"""


@functools.cache
def no_vulkan_because() -> str | None:
    """Why this machine has no Vulkan device, or None.

    Asked in a process of its own: a broken driver may abort.
    """
    try:
        query = subprocess.run(
            [sys.executable, "-P", "-c", LIST_VULKAN_DEVICES],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "the Vulkan driver did not answer within 60 s"
    if query.returncode != 0:
        lines = query.stderr.strip().splitlines() or [f"exit status {query.returncode}"]
        return f"the Vulkan driver does not start: {lines[-1]}"
    return None if query.stdout.strip() else "the Vulkan driver knows no device"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with Vulkan tests go last, whole.

    A process that has opened a software Vulkan device has threads of IREE that wait by spinning as long as it lives:
    all tests after that would share the cores with four of them.
    """
    last = {item.path for item in items if item.get_closest_marker("vulkan")}
    items.sort(key=lambda item: item.path in last)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("vulkan") and (reason := no_vulkan_because()):
        pytest.skip(f"no Vulkan device: {reason}")
