"""Kernels for Vulkan (run, where there is a device) and CUDA (compiled, and their PTX found in the artifact)."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import pipeline
from pipeline.api import capture_checked, compile_options
from pipeline.compiler import compile_program
from pipeline.dialect_passes.custom_operators import spirv, toolchain
from pipeline.dialect_passes.custom_operators.declaration import op
from pipeline.dialect_passes.custom_operators.launch import Launch, f32, i64
from pipeline.dialect_passes.custom_operators.lowering import LoweringError
from pipeline.dialect_passes.custom_operators.sizes import ceildiv
from pipeline.entry_points import EntrySpec
from pipeline.targets import parse_targets
from pipeline.tools.check_ptx import assemble, read_ptx


@op("kernels_gpu::affine")
def affine(x: Tensor, rows: Tensor, scale: float, keep: int) -> tuple[Tensor, Tensor]:
    """x[rows] * scale, and which rows are at least `keep`."""
    return x[rows] * scale, (rows >= keep).int()


AFFINE_GLSL = """
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer R { int rows[]; };
layout(set = 0, binding = 2) writeonly buffer Y { float y[]; };
layout(set = 0, binding = 3) writeonly buffer K { int kept[]; };
layout(push_constant) uniform Constants { int count; int width; float scale; int keep; };
void main() {
  int j = int(gl_GlobalInvocationID.x), i = int(gl_WorkGroupID.y);
  if (j < width) y[i * width + j] = x[rows[i] * width + j] * scale;
  if (j == 0) kept[i] = int(rows[i] >= keep);
}
"""
AFFINE_CUDA = """
extern "C" __global__ void affine(const float *x, const int *rows, float *y, int *kept, int count, int width,
                                  float scale, int keep) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
  if (j < width) y[i * width + j] = x[rows[i] * width + j] * scale;
  if (j == 0) kept[i] = rows[i] >= keep;
}
"""


def declare(device, **options):
    affine.lowerings.clear()

    @affine.kernel(device, **options)
    def launch(x, rows, scale, keep):
        count, width = rows.numel(), x.shape[1]
        return Launch([ceildiv(width, 64), count], [count, width, scale, keep])

    return affine.lowerings[0]


def arguments(count=5, width=100):
    return torch.randn(9, width), torch.randint(0, 9, (count,), dtype=torch.int32), 0.1, 4


DYNAMIC = {(0, 0), (0, 1), (1, 0)}


# --- Vulkan ---


@pytest.mark.vulkan
@pytest.mark.compiler("glsl")
@pytest.mark.parametrize("dynamic", [set(), DYNAMIC], ids=["static", "dynamic"])
def test_a_shader_runs(compiled, dynamic):
    declare("vulkan", code=AFFINE_GLSL)
    run = compiled(affine, arguments(), "vulkan", dynamic=dynamic)
    for count, width in [(5, 100), *([(1, 2), (70, 65)] if dynamic else [])]:
        args = arguments(count, width)
        for result, expected in zip(run(*args), affine.meaning(*args), strict=True):
            assert_close(result, expected)


@pytest.mark.vulkan
@pytest.mark.compiler("glsl")
def test_sizes_beyond_the_limits_are_errors_at_run_time(compiled):
    """Static ones are refused when compiling; a device would run the first workgroups only, or none."""
    declare("vulkan", code=AFFINE_GLSL)
    run = compiled(affine, arguments(), "vulkan", dynamic=DYNAMIC)
    with pytest.raises(RuntimeError, match="more than the 65535 workgroups"):
        run(*arguments(count=65536, width=2))


@pytest.mark.compiler("glsl")
def test_limits_of_devices_are_refused(call_types):
    lowering = declare("vulkan", code=AFFINE_GLSL)
    call = call_types(affine, arguments(count=65536, width=2))
    assert "65536 workgroups along y" in lowering.refuses(call)
    empty = call_types(affine, (torch.randn(0, 3), torch.zeros(2, dtype=torch.int32), 1.0, 1))
    assert lowering.refuses(empty) == "x has no elements; vulkan devices do not bind empty tensors"
    nothing = call_types(affine, arguments(count=0))
    assert lowering.refuses(nothing) is None


@pytest.mark.vulkan
@pytest.mark.compiler("glsl")
def test_results_without_elements(compiled):
    declare("vulkan", code=AFFINE_GLSL)
    args = arguments(count=0)
    results = compiled(affine, args, "vulkan")(*args)
    assert [tuple(result.shape) for result in results] == [(0, 100), (0,)]


@pytest.mark.compiler("glsl")
def test_spirv_is_taken_as_it_is(call_types, tmp_path):
    content = toolchain.compile_source(toolchain.find("glsl"), AFFINE_GLSL, tmp_path, "portable")
    (tmp_path / "affine.spv").write_bytes(content)
    lowering = declare("vulkan", source=tmp_path / "affine.spv")
    call, (target,) = call_types(affine, arguments()), parse_targets("vulkan")
    lowering.define("k", call, target, tmp_path)
    (copy,) = tmp_path.glob("main_*.spv")
    assert copy.read_bytes() == content
    assert lowering.title == "SPIR-V kernel affine.spv"


DOUBLE_GLSL = """
#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) readonly buffer X { double x[]; };
layout(set = 0, binding = 1) writeonly buffer Y { double y[]; };
void main() { uint i = gl_GlobalInvocationID.x; y[i] = x[i] + double(int64_t(i)); }
"""


@op("kernels_gpu::ramp")
def ramp(x: Tensor) -> Tensor:
    return x + torch.arange(x.numel(), dtype=x.dtype)


@pytest.mark.compiler("glsl")
def test_what_a_shader_needs_of_a_device(call_types):
    ramp.lowerings.clear()
    ramp.kernel("vulkan", code=DOUBLE_GLSL)(lambda x: Launch([x.numel()]))
    call = call_types(ramp, (torch.randn(3, dtype=torch.float64),))
    assert ramp.lowerings[0].features(call) == ("shaderFloat64", "shaderInt64")


# --- CUDA ---


@pytest.mark.compiler("cuda")
@pytest.mark.parametrize("dynamic", [set(), DYNAMIC], ids=["static", "dynamic"])
def test_cuda_c_is_compiled_into_the_artifact(built, dynamic):
    declare("cuda", code=AFFINE_CUDA, workgroup_size=(64, 1, 1))
    modules = read_ptx(built(affine, arguments(), "cuda", dynamic=dynamic))
    (ours,) = [ptx for ptx in modules if "affine" in ptx.text]
    if shutil.which("ptxas"):
        assert assemble(ours) is None


PTX = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry affine(
  .param .u64 x, .param .u64 rows, .param .u64 y, .param .u64 kept,
  .param .u32 count, .param .u32 width, .param .f32 scale, .param .u32 keep
) { ret; }
"""


def test_ptx_is_taken_as_it_is(built):
    lowering = declare("cuda", code=PTX, workgroup_size=(64, 1, 1))
    assert lowering.title == "PTX kernel affine"
    (ptx,) = read_ptx(built(affine, arguments(), "cuda"))
    assert ptx.text.strip() == PTX.strip()


# --- Kernels that are wrong ---


def failure(call_types, device, args=None, **options) -> str:
    lowering = declare(device, **options)
    (target,) = parse_targets(device, cuda_arch="sm_75")
    with pytest.raises(LoweringError) as error:
        lowering.define("k", call_types(affine, args or arguments()), target, Path(os.devnull))
    return str(error.value)


@pytest.mark.compiler("glsl")
@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("float x[]", "int x[]", "binding 0 holds 32-bit ints, but the call passes x: float32[9, 100] there"),
        ("float y[]", "double y[]", "binding 2 holds 64-bit floats, but the call passes out_0"),
        (
            "binding = 3",
            "binding = 4",
            "uses binding 4 of set 0; the call passes bindings 0 (x), 1 (rows), 2 (out_0)",
        ),
        ("set = 0, binding = 1", "set = 1, binding = 1", "uses binding 1 of set 1"),
        (
            "float scale;",
            "int scale;",
            "its push constants are (int32 at 0, int32 at 4, int32 at 8, int32 at 12)",
        ),
        ("int count; ", "", "but the call passes (int32 at 0, int32 at 4, float32 at 8, int32 at 12)"),
    ],
)
def test_a_shader_with_another_interface(call_types, old, new, says):
    assert old in AFFINE_GLSL
    assert says in failure(call_types, "vulkan", code=AFFINE_GLSL.replace(old, new))


@pytest.mark.compiler("glsl")
def test_a_shader_with_too_few_results(call_types):
    lines = [line for line in AFFINE_GLSL.splitlines() if "kept" not in line]
    assert "it does not write binding 3" in failure(call_types, "vulkan", code="\n".join(lines))


@pytest.mark.compiler("glsl")
def test_a_shader_that_does_not_compile(call_types):
    message = failure(
        call_types, "vulkan", code=AFFINE_GLSL.replace("void main", "void nothing(); void main( a")
    )
    assert "GLSL kernel launch" in message
    assert "syntax error" in message


@pytest.mark.compiler("cuda")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int count, ", ""),
        ("float scale", "int scale"),
        ("const int *rows", "const float *rows"),
        ("x, const", "x, int n, const"),
    ],
)
def test_a_cuda_kernel_with_another_signature(call_types, old, new):
    assert old in AFFINE_CUDA
    message = failure(call_types, "cuda", code=AFFINE_CUDA.replace(old, new), workgroup_size=(64, 1, 1))
    assert (
        'The call needs: extern "C" __global__ void affine(const float*, const int*, float*, int*' in message
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("affine(", "other(", "has no kernel 'affine' (kernels: other)"),
        (
            ".param .u32 keep",
            ".param .u64 keep",
            "(8, 8, 8, 8, 4, 4, 4, 8) bytes, but the call passes (8, 8, 8, 8, 4, 4, 4, 4)",
        ),
        ("sm_75", "sm_90", "it is for sm_90 and newer, the target is sm_75"),
    ],
)
def test_ptx_that_does_not_fit(call_types, old, new, says):
    assert says in failure(call_types, "cuda", code=PTX.replace(old, new), workgroup_size=(64, 1, 1))


def test_bytes_that_are_no_spirv(call_types, tmp_path):
    path = tmp_path / "noise.spv"
    for content in (b"", b"GLSL", bytes(64), b"\x03\x02\x23\x07" + bytes(14 * 4)):
        path.write_bytes(content)
        assert "SPIR-V module" in failure(call_types, "vulkan", source=path)


@pytest.mark.parametrize("constant", [2**31, -(2**31) - 1, i64(1), 1e39])
def test_constants_that_do_not_fit_into_32_bits(call_types, constant):
    affine.lowerings.clear()

    @affine.kernel("cuda", code=PTX, workgroup_size=(1, 1, 1))
    def launch(x):
        return Launch([1], [constant])

    with pytest.raises(LoweringError, match=r"does not fit into|take 32-bit constants only"):
        affine.lowerings[0].refuses(call_types(affine, arguments()))


def test_a_float_among_float64_tensors_is_never_cut_off(call_types):
    ramp.lowerings.clear()
    ramp.kernel("vulkan", code=DOUBLE_GLSL)(lambda x: Launch([1], [0.1]))
    call = call_types(ramp, (torch.randn(3, dtype=torch.float64),))
    with pytest.raises(LoweringError, match=r"wrap it in f32\(...\)"):
        ramp.lowerings[0].refuses(call)
    ramp.lowerings.clear()
    ramp.kernel("vulkan", code=DOUBLE_GLSL)(lambda x: Launch([1], [f32(0.1)]))
    assert toolchain.find("glsl") is None or ramp.lowerings[0].refuses(call) is None


@pytest.mark.compiler("glsl")
def test_the_interface_of_a_shader(tmp_path):
    module = spirv.read(toolchain.compile_source(toolchain.find("glsl"), AFFINE_GLSL, tmp_path, "portable"))
    assert module.entry_points == ["main"]
    assert module.bindings == {
        (0, 0): ("float", 32),
        (0, 1): ("int", 32),
        (0, 2): ("float", 32),
        (0, 3): ("int", 32),
    }
    assert module.constants == [(0, ("int", 32)), (4, ("int", 32)), (8, ("float", 32)), (12, ("int", 32))]
    assert module.features == ()


# --- In whole programs ---

UNARY_GLSL = """
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X {{ float x[]; }};
layout(set = 0, binding = 1) writeonly buffer Y {{ float y[]; }};
layout(push_constant) uniform Constants {{ int count; }};
void main() {{ uint i = gl_GlobalInvocationID.x; if (i < count) y[i] = {}; }}
"""
UNARY_CUDA = """
extern "C" __global__ void kernel(const float *x, float *y, int count) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = {};
}}
"""


def launch_unary(x):
    return Launch([ceildiv(x.numel(), 64)], [x.numel()])


@op("kernels_gpu::plus")
def plus(x: Tensor) -> Tensor:
    return x + 1


@op("kernels_gpu::times")
def times(x: Tensor) -> Tensor:
    return x * 3


for each, expression in [(plus, "x[i] + 1.0f"), (times, "x[i] * 3.0f")]:
    each.kernel("vulkan", code=UNARY_GLSL.format(expression))(launch_unary)
    options = {"function": "kernel", "workgroup_size": (64, 1, 1)}
    each.kernel("cuda", code=UNARY_CUDA.format(expression), **options)(launch_unary)


class Both(torch.nn.Module):
    """Kernels of one name, one of them over a weight only: it may not be run by the compiler."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(33))

    def forward(self, x):
        return times(plus(x)) + times(self.weight)


@pytest.mark.vulkan
@pytest.mark.compiler("glsl")
def test_shaders_and_weights_in_one_program():
    model, x = Both(), torch.randn(4, 33)
    executable = pipeline.compile(model, args=(x,), target="vulkan", weights="inline")
    assert_close(executable(x), model(x))


@pytest.mark.compiler("cuda")
def test_cuda_kernels_and_weights_in_one_program():
    settings = compile_options("cuda", weights="inline")
    specs = {"main": EntrySpec((torch.randn(4, 33),), {})}
    artifact = compile_program(capture_checked(Both(), specs, settings), settings)
    modules = [ptx for ptx in read_ptx(artifact.vmfb) if "kernel(" in ptx.text]
    assert len(modules) == 2
    assert sum("0f40400000" in ptx.text for ptx in modules) == 1  # 3.0
