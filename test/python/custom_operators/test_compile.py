"""Custom operators inside compiled programs: which lowering each call gets, and that the values are eager's."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx

import pipeline
from pipeline.api import capture_checked, compile_options, entry_specs
from pipeline.compiler import compile_program, emit
from pipeline.dialect_passes.custom_operators.errors import CustomOperatorError
from pipeline.errors import InputError
from pipeline.tools import check_ptx

F = torch.nn.functional


@pipeline.op("compiletest::gated")
def gated(x: Tensor, gate: Tensor, limit: float = 7.0) -> Tensor:
    return x.clamp(max=limit) * torch.sigmoid(gate)


C_SOURCE = """
#include "pipeline_kernel.h"
void gated(const float *x, const float *gate, float *out, int64_t n, float limit, size_t group) {
  int64_t end = (int64_t)(group + 1) * 256;
  for (int64_t i = (int64_t)group * 256; i < (end < n ? end : n); ++i)
    out[i] = (x[i] < limit ? x[i] : limit) / (1.0f + pk_expf(-gate[i]));
}
"""
GLSL_SOURCE = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Gate { float gate[]; };
layout(set = 0, binding = 2) buffer Out { float result[]; };
layout(push_constant) uniform Constants { uint n; float limit; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) result[i] = min(x[i], limit) / (1.0 + exp(-gate[i]));
}
"""
CUDA_SOURCE = """
extern "C" __global__ void gated(const float *x, const float *gate, float *out, int n, float limit) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = fminf(x[i], limit) / (1.0f + expf(-gate[i]));
}
"""


@gated.kernel("cpu", code=C_SOURCE, dtypes=[torch.float32])
def on_cpu(x, limit):
    if len(x.shape) != 2:
        raise pipeline.Refused("it is for rank 2")
    return pipeline.Launch(workgroups=[pipeline.ceildiv(x.numel(), 256)], constants=[x.numel(), limit])


@gated.kernel("vulkan", code=GLSL_SOURCE, dtypes=[torch.float32])
def on_vulkan(x, limit):
    if len(x.shape) != 2:
        raise pipeline.Refused("it is for rank 2")
    return pipeline.Launch(workgroups=[pipeline.ceildiv(x.numel(), 64)], constants=[x.numel(), limit])


@gated.kernel("cuda", code=CUDA_SOURCE, dtypes=[torch.float32], workgroup_size=(64, 1, 1))
def on_cuda(x, limit):
    return pipeline.Launch(workgroups=[pipeline.ceildiv(x.numel(), 64)], constants=[x.numel(), limit])


class Gates(nn.Module):
    """Two calls of one kind, and one that the kernels do not take."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, gate):
        h = self.linear(x)
        return gated(h, gate, 0.3) + 1, gated(gate, h), gated(gate[0], x[0])


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Gates().eval()


BATCH = Dim("batch", min=2, max=1000)
X, GATE = torch.randn(3, 4), torch.randn(3, 4)
DYNAMIC = ({0: BATCH}, {0: BATCH})


@pytest.mark.parametrize(
    ("target", "title"),
    [
        ("cpu", "C kernel gated"),
        pytest.param("vulkan", "GLSL kernel on_vulkan", marks=pytest.mark.vulkan),
    ],
)
def test_a_kernel_runs_inside_a_model(model, target, title):
    exe = pipeline.compile(model, args=(X, GATE), dynamic_shapes=DYNAMIC, target=target)
    for rows in (3, 2, 777):
        x, gate = torch.randn(rows, 4), torch.randn(rows, 4)
        torch.testing.assert_close(exe(x, gate), model(x, gate))
    with_kernel, with_meaning = exe.manifest.notes
    assert with_kernel.startswith(f"compiletest::gated: {title}") and with_kernel.endswith("2 calls")
    assert with_meaning.startswith("compiletest::gated: meaning, 1 call; not ")
    assert "it is for rank 2" in with_meaning


def parameters():
    torch.manual_seed(1)
    return {"first": torch.randn(4, 6) / 2, "second": torch.randn(6, 2) / 2}


def loss(weights, x, y):
    h = x @ weights["first"]
    return F.mse_loss(gated(h, h * 0.5 + 1) @ weights["second"], y)


def step(weights, x, y):
    gradients, value = torch.func.grad_and_value(loss)(weights, x, y)
    return value, {name: weight - 0.1 * gradients[name] for name, weight in weights.items()}


@pytest.mark.parametrize("target", ["cpu", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def test_a_kernel_runs_inside_a_training_step(target):
    """Forward calls the kernel; backward is the composition's."""
    args = (parameters(), torch.randn(5, 4), torch.randn(5, 2))
    exe = pipeline.compile(make_fx(step)(*args), args=args, target=target)
    assert [note for note in exe.manifest.notes if "kernel" in note and note.endswith("1 call")]
    compiled, eager = args[0], args[0]
    for _ in range(5):
        compiled_loss, compiled = exe(compiled, *args[1:])
        eager_loss, eager = step(eager, *args[1:])
        torch.testing.assert_close(compiled_loss, eager_loss)
        torch.testing.assert_close(compiled, eager)


def test_its_gradient_is_that_of_the_composition():
    x, gate = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(gated, (x, gate, 0.5))
    assert torch.autograd.gradgradcheck(gated, (x, gate, 0.5))


def built(model, target, **options):
    settings = compile_options(target, **options)
    entries = entry_specs((X, GATE), None, DYNAMIC, None)
    return compile_program(capture_checked(model, entries, settings), settings)


def test_its_cuda_kernel_compiles_into_the_artifact(model, tmp_path):
    artifact = built(model, "cuda")
    assert "CUDA C kernel" in artifact.manifest.notes[0]
    artifact.save(tmp_path / "model.vmfb")
    texts = [ptx.text for ptx in check_ptx.read_ptx(tmp_path / "model.vmfb")]
    assert any(".entry gated" in text for text in texts)


def test_an_artifact_for_several_devices_takes_what_serves_all(model):
    (note,) = built(model, "cpu,vulkan").manifest.notes
    assert note.startswith("compiletest::gated: meaning, 3 calls; not C kernel gated")
    assert "it is not for vulkan" in note and "it is not for cpu" in note


def test_explain_says_what_each_call_gets(model):
    found = pipeline.explain(model, args=(X, GATE)).custom_calls
    assert sum(found.values()) == 3
    assert {choice.lowering for choice in found} == {"C kernel gated", "meaning"}
    assert all(choice.line and "test_compile.py" in choice.line for choice in found)


def test_the_lowering_can_be_chosen(model):
    exe = pipeline.compile(model, args=(X, GATE), lowerings={"compiletest::gated": "meaning"})
    torch.testing.assert_close(exe(X, GATE), model(X, GATE))
    assert exe.manifest.notes == (
        "compiletest::gated: meaning, 3 calls; not C kernel gated: 'meaning' is asked for",
    )


@pytest.mark.parametrize(
    ("lowerings", "message"),
    [
        ({"compiletest::gated": "magic"}, r"gated: it has no lowering 'magic' for this target; .*'meaning'"),
        ({"compiletest::absent": "meaning"}, r"no operator 'compiletest::absent' is declared"),
    ],
)
def test_a_lowering_that_cannot_be_chosen(model, lowerings, message):
    with pytest.raises(InputError, match=message):
        pipeline.explain(model, args=(X, GATE), lowerings=lowerings)


@pipeline.op("compiletest::collect")
def collect(
    scale: float, xs: list[Tensor], bias: Tensor | None, counts: Tensor, name: str = "sum"
) -> tuple[Tensor, Tensor]:
    total = torch.stack(xs).sum(0) * scale
    return total if bias is None else total + bias, counts.to(torch.int64) + len(xs)


@collect.lowering("cpu")
def collect_lowering(call):
    values, counts = call.results
    operands = [f"%xs_{i}" for i in range(len(call["xs"]))]
    lines, total = [], operands[0]
    for i, operand in enumerate(operands[1:]):
        lines.append(f"%sum{i} = arith.addf {total}, {operand} : {values.builtin}")
        total = f"%sum{i}"
    lines += [
        f"%scale = arith.constant dense<{call['scale']:e}> : {values.builtin}",
        f"%scaled = arith.mulf {total}, %scale : {values.builtin}",
        f"%n = arith.constant dense<{len(operands)}> : {counts.builtin}",
        f"%wide = arith.extsi %counts : {call['counts'].builtin} to {counts.builtin}",
        f"%m = arith.addi %wide, %n : {counts.builtin}",
    ]
    result = "%scaled"
    if call["bias"] is not None:
        lines.append(f"%biased = arith.addf %scaled, %bias : {values.builtin}")
        result = "%biased"
    return "\n".join([*lines, f"return {result}, %m : {values.builtin}, {counts.builtin}"])


class Collects(nn.Module):
    def forward(self, a, b, c, n):
        first = collect(2.0, [a, b], None, n)
        second = collect(counts=n, bias=c, xs=[b, first[0], a], scale=0.5)
        return *first, *second


def test_operands_reach_a_lowering_in_the_order_of_the_schema():
    """Lists, optional tensors and keywords; a scalar before the tensors; two results."""
    args = (torch.randn(2, 3), torch.randn(2, 3), torch.randn(2, 3), torch.tensor([1, 2], dtype=torch.int8))
    exe = pipeline.compile(Collects(), args=args)
    torch.testing.assert_close(exe(*args), Collects()(*args))
    assert [note for note in exe.manifest.notes if "linalg lowering collect_lowering" in note]


@pipeline.op("compiletest::blend")
def blend(x: Tensor, y: Tensor) -> Tensor:
    return torch.lerp(x, y, 0.25)


@blend.lowering(form="torch")
def blend_lowering(call):
    """Between first and last all types are left to the shape library."""
    x, y = call["x"].torch, call["y"].torch
    return f"""
        %quarter = torch.constant.float 0.25
        %rest = torch.constant.float 0.75
        %a = torch.aten.mul.Scalar %x, %rest : {x}, !torch.float -> !torch.vtensor
        %b = torch.aten.mul.Scalar %y, %quarter : {y}, !torch.float -> !torch.vtensor
        %one = torch.constant.int 1
        %r = torch.aten.add.Tensor %a, %b, %one : !torch.vtensor, !torch.vtensor, !torch.int -> !torch.vtensor
        return %r : !torch.vtensor
    """


class Blends(nn.Module):
    def forward(self, x, y):
        return blend(x, y).relu()


def test_a_lowering_in_the_torch_dialect_is_refined_and_inlined():
    shapes = ({0: BATCH}, {0: BATCH})
    exe = pipeline.compile(Blends(), args=(X, GATE), dynamic_shapes=shapes, target="cpu")
    for rows in (3, 9):
        x, y = torch.randn(rows, 4), torch.randn(rows, 4)
        torch.testing.assert_close(exe(x, y), Blends()(x, y))
    settings = compile_options()
    program = capture_checked(Blends(), entry_specs((X, GATE), None, shapes, None), settings)
    refined = emit(program, settings, "refined")
    assert "vtensor," not in refined and "call @" not in refined and "lerp" not in refined


@pipeline.op("compiletest::accumulate", mutates_args={"total"})
def accumulate(total: Tensor, x: Tensor, start: int) -> Tensor:
    total[start : start + x.shape[0]] += blend(x, x * 2)
    return total.sum(0)


class Accumulates(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(6, 4))

    def forward(self, x, y):
        first = accumulate(self.total, x, 1)
        y.mul_(2)
        return first, accumulate(y, x[:2], 0), accumulate(self.total[2:4], x[:2], 0)


def test_changed_arguments_change():
    """State, an input, a view of state; and a meaning that uses another operator."""
    model = Accumulates()
    eager = copy.deepcopy(model)
    x, y = torch.randn(3, 4), torch.randn(2, 4)
    exe = pipeline.compile(model, args=(x, y))
    for _ in range(2):
        compiled_y, eager_y = y.clone(), y.clone()
        torch.testing.assert_close(exe(x, compiled_y), eager(x, eager_y))
        torch.testing.assert_close(compiled_y, eager_y)
        torch.testing.assert_close(exe.state_dict()["total"], eager.total)


@pipeline.op("compiletest::shifted")
def shifted(x: Tensor, by: int) -> Tensor:
    return x + by


@shifted.lowering("cpu")
def shifted_lowering(call):
    t = call.results[0].builtin
    return f"%by = arith.constant dense<{call['by']}.0> : {t}\n%r = arith.addf %x, %by : {t}\nreturn %r : {t}"


class Shifts(nn.Module):
    def forward(self, x):
        return shifted(x.flatten(), x.shape[0])


def test_a_symbolic_argument_keeps_the_meaning():
    exe = pipeline.compile(Shifts(), args=(torch.randn(3, 4),), dynamic_shapes=({0: BATCH},))
    x = torch.randn(7, 4)
    torch.testing.assert_close(exe(x), Shifts()(x))
    assert "the argument by is known only when the program runs" in exe.manifest.notes[0]


def broken_type(call):
    return f"return %x : {call['x'].builtin.replace('f32', 'f64')}"


def broken_result(call):
    return f"%r = arith.mulf %x, %gate : {call['x'].builtin}"


@pytest.mark.parametrize("function", [broken_type, broken_result])
def test_wrong_ir_is_one_error_that_names_the_lowering(function):
    @pipeline.op("compiletest::broken")
    def broken(x: Tensor, gate: Tensor) -> Tensor:
        return x * gate

    broken.lowering("cpu")(function)

    class Uses(nn.Module):
        def forward(self, x, gate):
            return broken(x, gate)

    with pytest.raises(CustomOperatorError, match=rf"{function.__name__} .*test_compile.py"):
        pipeline.compile(Uses(), args=(X, GATE))


@pipeline.op("compiletest::halves")
def halves(x: Tensor) -> Tensor:
    return x[::2]


class Halves(nn.Module):
    def forward(self, x):
        return halves(x)


def test_a_wrong_shape_function_is_an_error_at_the_call():
    """It is right for even sizes, so that only the call at hand shows it."""

    @halves.shape
    def shape(x: list[int]) -> list[int]:
        return [x[0] // 2, *x[1:]] if len(x) > 1 else [x[0] // 2]

    assert pipeline.explain(Halves(), args=(torch.randn(4, 3),))
    with pytest.raises(InputError, match=r"(?s)compiletest::halves \(called at .*test_compile.py.*shape"):
        pipeline.explain(Halves(), args=(torch.randn(5, 3),))
