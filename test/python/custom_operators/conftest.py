"""Shared by the tests of kernels: what capture says of a call, and a lowering's definition compiled and run alone."""

import subprocess
from pathlib import Path

import iree.runtime as iree
import numpy as np
import pytest
import torch

from pipeline.dialect_passes.custom_operators import toolchain
from pipeline.dialect_passes.custom_operators.symbolic_sizes import describe_call
from pipeline.runtime import dtypes, tensors
from pipeline.runtime.device import Device, vm_instance
from pipeline.targets import parse_targets

URIS = {"cpu": "local-sync", "vulkan": "vulkan"}


def pytest_collection_modifyitems(items):
    for item in items:
        for marker in item.iter_markers("compiler"):
            kind = marker.args[0]
            reason = f"no {toolchain.needed(kind)}"
            item.add_marker(pytest.mark.skipif(toolchain.find(kind) is None, reason=reason))


def flat_tensors(arguments):
    """The tensors of a call as a kernel gets them: lists flattened, None left out."""
    items = [x for value in arguments for x in (value if isinstance(value, (list, tuple)) else [value])]
    return [item for item in items if isinstance(item, torch.Tensor)]


class Calls(torch.nn.Module):
    """A program that is one call of an operator; scalars are constants of it."""

    def __init__(self, op, args):
        super().__init__()
        self.op, self.args = op, args

    def forward(self, *tensors):
        given = iter(tensors)

        def fill(value):
            if isinstance(value, (list, tuple)):
                return [fill(item) for item in value]
            return next(given) if isinstance(value, torch.Tensor) else value

        return self.op(*(fill(value) for value in self.args))


def _call_types(op, args, dynamic=()):
    marked = flat_tensors(args)
    shapes = [{dim: torch.export.Dim.DYNAMIC for n, dim in dynamic if n == i} for i in range(len(marked))]
    program = torch.export.export(Calls(op, args), tuple(marked), dynamic_shapes=(tuple(shapes),))
    (node,) = (node for node in program.graph.nodes if node.target is op.overload)
    fake_args, fake_kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    results = node.meta["val"]
    bound = op.schema.named(fake_args, fake_kwargs)
    return describe_call(bound, results if isinstance(results, (tuple, list)) else [results])


@pytest.fixture(scope="session")
def call_types():
    """``call_types(op, args, dynamic)``: what capture says of a call. dynamic: (number of the tensor, dim) pairs."""
    return _call_types


def _caller(call):
    """A public function that calls the definition, in linalg."""
    operands = [tensor.builtin for _, tensor in call.tensors()]
    results = ", ".join(result.builtin for result in call.results)
    arguments = ", ".join(f"%x{i}: {type_}" for i, type_ in enumerate(operands))
    values = ", ".join(f"%x{i}" for i in range(len(operands)))
    count = len(call.results)
    return (
        f"func.func @main({arguments}) -> ({results}) {{\n"
        f"  %r:{count} = call @the.kernel({values}) : ({', '.join(operands)}) -> ({results})\n"
        f"  return {', '.join(f'%r#{i}' for i in range(count))} : {results}\n}}\n"
    )


def _build(lowering, call, device, folder, cpu="host", options=()):
    (target,) = parse_targets(device, cpu=cpu)
    assert lowering.refuses(call) is None
    text = lowering.define("the.kernel", call, target, folder)
    (folder / "module.mlir").write_text(text + _caller(call))
    command = ["iree-compile", "module.mlir", "-o", "module.vmfb", *target.options]
    command += [f"--iree-hal-target-device={target.hal_device}", "--iree-opt-level=O2"]
    command += ["--iree-input-demote-f64-to-f32=false"]
    command += ["--iree-hal-executable-object-search-path=.", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return folder / "module.vmfb"


def _device(kind):
    return Device(kind, URIS[kind], iree.get_device(URIS[kind]), vm_instance())


class Runner:
    """A compiled definition; called with an operator's arguments it returns a list of results."""

    def __init__(self, path: Path, call, device):
        self.path, self._call, self._device = path, call, _device(device)
        self._module = iree.VmModule.mmap(vm_instance(), str(path))
        hal = iree.create_hal_module(vm_instance(), self._device.hal)
        self._context = iree.VmContext(vm_instance(), [hal, self._module])

    def __call__(self, *args):
        inputs, outputs = iree.VmVariantList(8), iree.VmVariantList(8)
        for tensor in flat_tensors(args):
            inputs.push_ref(tensors.copy_to_device(tensor, dtypes.from_torch(tensor.dtype), self._device))
        self._context.invoke(self._module.lookup_function("main"), inputs, outputs)
        return [self._result(outputs, i, result.dtype) for i, result in enumerate(self._call.results)]

    def _result(self, outputs, number, dtype):
        row = dtypes.BY_NAME[dtype]
        view = outputs.get_as_object(number, iree.HalBufferView)
        return tensors.to_torch(np.array(tensors.from_device(view, row, self._device)), row)


@pytest.fixture
def compiled(tmp_path):
    """``compiled(op, args, device, dynamic=(), lowering=-1)``: the operator's lowering for one call, to be run."""

    def build(op, args, device, dynamic=(), lowering=-1, **options):
        call = _call_types(op, args, dynamic)
        return Runner(_build(op.lowerings[lowering], call, device, tmp_path, **options), call, device)

    return build


@pytest.fixture
def built(tmp_path):
    """``built(op, args, device, ...)``: the path of the compiled module, for devices that are not here."""
    return lambda op, args, device, dynamic=(), lowering=-1, **options: _build(
        op.lowerings[lowering], _call_types(op, args, dynamic), device, tmp_path, **options
    )
