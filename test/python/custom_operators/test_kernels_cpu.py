"""C kernels: what they are passed, for every kind of argument, and that their results are the meaning's."""

import subprocess
import textwrap
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import pipeline
from pipeline.dialect_passes.custom_operators import toolchain
from pipeline.dialect_passes.custom_operators.declaration import op
from pipeline.dialect_passes.custom_operators.launch import Launch, f32, i32
from pipeline.dialect_passes.custom_operators.lowering import LoweringError, Refused
from pipeline.dialect_passes.custom_operators.sizes import ceildiv, minimum
from pipeline.targets import parse_targets

from .conftest import Calls

pytestmark = pytest.mark.compiler("c")


@op("kernels_cpu::swiglu")
def swiglu(x: Tensor, gate: Tensor, limit: float = 7.0) -> Tensor:
    return torch.sigmoid(gate) * gate.clamp(max=limit) * x


@swiglu.kernel(
    "cpu",
    code="""
    #include "pipeline_kernel.h"
    void swiglu(const float *x, const float *gate, float *out, int64_t n, float limit, size_t workgroup) {
      size_t end = (workgroup + 1) * 256 < n ? (workgroup + 1) * 256 : n;
      for (size_t i = workgroup * 256; i < end; ++i)
        out[i] = pk_sigmoidf(gate[i]) * (gate[i] > limit ? limit : gate[i]) * x[i];
    }
    """,
    dtypes=[torch.float32],
)
def launch_swiglu(x, limit):
    return Launch([ceildiv(x.numel(), 256)], [x.numel(), limit])


@pytest.mark.parametrize("cpu", ["host", "generic"])
def test_static(compiled, cpu):
    x, gate = torch.randn(7, 100), torch.randn(7, 100) * 5
    (result,) = compiled(swiglu, (x, gate, 2.5), "cpu", cpu=cpu)(x, gate)
    assert_close(result, swiglu.meaning(x, gate, 2.5))


def test_dynamic_sizes_reach_the_kernel_and_the_result(compiled):
    example = torch.randn(5, 9), torch.randn(5, 9)
    run = compiled(swiglu, example, "cpu", dynamic={(0, 0), (1, 0), (0, 1), (1, 1)})
    for shape in [(5, 9), (1, 1), (40, 30), (0, 9)]:
        x, gate = torch.randn(shape), torch.randn(shape) * 5
        (result,) = run(x, gate)
        assert_close(result, swiglu.meaning(x, gate))


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), ()])
def test_no_elements_and_no_dimensions(compiled, shape):
    x = torch.randn(shape)
    (result,) = compiled(swiglu, (x, x), "cpu")(x, x)
    assert_close(result, swiglu.meaning(x, x))


@op("kernels_cpu::pack")
def pack(
    xs: list[Tensor], bias: Tensor | None, mask: Tensor, flag: bool, count: int
) -> tuple[Tensor, Tensor]:
    joined = torch.cat(xs, 1) * count
    joined = joined if bias is None else joined + bias
    return joined, (joined > 0) ^ mask ^ flag


PACK = """
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
void pack(const double *a, const double *b, %s const bool *mask, double *joined, bool *positive,
          int64_t wa, int64_t wb, int64_t flag, int64_t count, size_t row) {
  for (int64_t j = 0; j < wa + wb; ++j) {
    int64_t at = row * (wa + wb) + j;
    double value = (j < wa ? a[row * wa + j] : b[row * wb + j - wa]) * count;
    joined[at] = value %s;
    positive[at] = (joined[at] > 0) ^ mask[at] ^ flag;
  }
}
"""


def declare_pack(with_bias: bool) -> None:
    @pack.kernel("cpu", code=PACK % (("const double *bias,", "+ bias[j]") if with_bias else ("", "")))
    def launch(xs, bias, flag, count):
        if (bias is not None) != with_bias:
            raise Refused("it is for calls with bias" if with_bias else "it is for calls without bias")
        assert isinstance(count, int)
        a, b = xs
        return Launch([a.shape[0]], [a.size(1), b.size(-1), flag, count])


@pytest.mark.parametrize("with_bias", [True, False])
def test_lists_none_bools_and_several_results(compiled, with_bias):
    """Lists are flattened, None is left out; scalars come as they are in Python, also large integers."""
    pack.lowerings.clear()
    declare_pack(with_bias)
    a, b, bias = (torch.randn(s, dtype=torch.float64) for s in [(3, 2), (3, 5), (7,)])
    mask = torch.rand(3, 7) > 0.5
    args = ([a, b], bias if with_bias else None, mask, True, 2**40)
    dynamic = {(0, 0), (1, 0), (2 + with_bias, 0)}
    run = compiled(pack, args, "cpu", dynamic=dynamic)
    for rows in (3, 1, 8):
        args = (
            [a[:1].expand(rows, 2), b[:1].expand(rows, 5)],
            args[1],
            mask[:1].expand(rows, 7),
            True,
            2**40,
        )
        for result, expected in zip(run(*args), pack.meaning(*args), strict=True):
            assert_close(result, expected)


def test_a_refusing_launch_function_leaves_the_call_to_others(call_types):
    pack.lowerings.clear()
    declare_pack(with_bias=False)
    a = torch.randn(3, 7, dtype=torch.float64)
    call = call_types(pack, ([a, a], torch.randn(14), torch.ones(3, 14, dtype=torch.bool), True, 1))
    assert pack.lowerings[0].refuses(call) == "it is for calls without bias"


C_TYPES = {
    torch.float64: "double",
    torch.float16: "uint16_t",
    torch.bfloat16: "uint16_t",
    torch.int64: "int64_t",
    torch.int32: "int32_t",
    torch.int16: "int16_t",
    torch.int8: "int8_t",
    torch.uint8: "uint8_t",
    torch.bool: "bool",
    torch.complex64: "float",
    torch.complex128: "double",
}


@op("kernels_cpu::reverse")
def reverse(x: Tensor) -> Tensor:
    return x.flip(0)


def declare_reverse(dtype: torch.dtype) -> None:
    width = 2 if dtype.is_complex else 1
    reverse.lowerings.clear()

    @reverse.kernel(
        "cpu",
        code=f"""
        #include <stdbool.h>
        #include <stdint.h>
        #include <stddef.h>
        void reverse(const {C_TYPES[dtype]} *x, {C_TYPES[dtype]} *out, int64_t n, size_t i) {{
          for (int k = 0; k < {width}; ++k) out[i * {width} + k] = x[(n - 1 - i) * {width} + k];
        }}
        """,
    )
    def launch(x):
        return Launch([x.numel()], [x.numel()])


@pytest.mark.parametrize("dtype", [t for t in C_TYPES if not t.is_complex], ids=str)
def test_every_dtype_is_passed_as_it_lies_in_memory(compiled, dtype):
    declare_reverse(dtype)
    x = torch.tensor([0, 1, 100, 3, 7, 0, 1]).to(dtype)
    (result,) = compiled(reverse, (x,), "cpu")(x)
    assert result.dtype == dtype
    assert_close(result, x.flip(0), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [t for t in C_TYPES if t.is_complex], ids=str)
def test_complex_numbers_are_passed_as_two_floats(dtype):
    """In a whole program: at its border complex tensors are pairs, which the kernel must not notice."""
    declare_reverse(dtype)
    x = torch.randn(7, dtype=dtype)
    result = pipeline.compile(Calls(reverse, (x,)), args=(x,))(x)
    assert_close(result, x.flip(0), rtol=0, atol=0)


@op("kernels_cpu::scale")
def scale(x: Tensor, factor: float, step: int) -> Tensor:
    return (x.double() * factor + step).to(x.dtype)


def test_constants_of_every_width(compiled):
    """A float is a double among float64 tensors: 0.1 as a float32 would be wrong in the ninth digit."""
    scale.lowerings.clear()

    @scale.kernel(
        "cpu",
        code="""
        #include <stdint.h>
        #include <stddef.h>
        void scale(const double *x, double *out, double factor, int32_t step, float single, int64_t n, size_t wx,
                   size_t wy, size_t wz) {
          size_t i = (wz * 2 + wy) * 2 + wx;
          if (i < n) out[i] = single == 0.1f ? x[i] * factor + step : 0.0;
        }
        """,
    )
    def launch(x, factor, step):
        return Launch([2, 2, ceildiv(x.numel(), 4)], [factor, i32(step), f32(0.1), x.numel()])

    x = torch.randn(11, dtype=torch.float64)
    run = compiled(scale, (x, 0.1, -5), "cpu", dynamic={(0, 0)})
    assert_close(run(x)[0], x * 0.1 - 5, rtol=1e-15, atol=1e-15)
    for value in (float("nan"), float("-inf"), -0.0):
        (result,) = compiled(scale, (x, value, 0), "cpu")(x)
        assert_close(result, scale.meaning(x, value, 0), equal_nan=True)


@op("kernels_cpu::windows")
def windows(x: Tensor, size: int) -> Tensor:
    return x.unfold(0, size, size).sum(1)


def test_result_sizes_computed_from_the_operands(compiled):
    windows.lowerings.clear()

    @windows.kernel(
        "cpu",
        code="""
        #include <stdint.h>
        #include <stddef.h>
        void windows(const float *x, float *out, int64_t size, int64_t count, int64_t last, size_t i) {
          float sum = 0;
          for (int64_t k = 0; k < size; ++k) sum += x[i * size + k];
          out[i] = count > 0 && last >= 0 ? sum : -1;
        }
        """,
    )
    def launch(x, size, results):
        n = x.shape[0]
        return Launch([results[0].numel()], [size, minimum(n // size, 1000), n % size - 0 * n])

    run = compiled(windows, (torch.randn(17), 4), "cpu", dynamic={(0, 0)})
    for length in (17, 4, 7, 400):
        x = torch.randn(length)
        assert_close(run(x)[0], windows.meaning(x, 4))


@op("kernels_cpu::grow")
def grow(x: Tensor, by: int) -> Tensor:
    return torch.nn.functional.pad(x, (by, 0))


@grow.kernel(
    "cpu",
    code="""
    #include <stdint.h>
    void grow(const float *x, float *out, int64_t by, int64_t n, unsigned long group) {
      for (int64_t i = 0; i < n + by; ++i) out[i] = i < by ? 0.0f : x[i - by];
    }
    """,
)
def launch_grow(x, by):
    return Launch([1], [by, x.numel()])


class Growing(torch.nn.Module):
    """Calls whose operands have sizes that are computed: 2 n + 1, of which the result's 2 n + 4 follows."""

    def forward(self, x):
        return grow(torch.cat([x, x, x[:1]]), 3), grow(x[1:], 1), grow(torch.cat([x, x]), 0)


def test_sizes_of_operands_may_be_computed():
    model, x = Growing(), torch.randn(6)
    shapes = {"x": {0: torch.export.Dim("n", min=3, max=50)}}
    executable = pipeline.compile(model, args=(x,), dynamic_shapes=shapes)
    assert executable.manifest.notes == ("kernels_cpu::grow: C kernel grow, 3 calls",)
    for length in (6, 3, 50):
        x = torch.randn(length)
        assert_close(executable(x), model(x))


def test_names_of_two_kernels_do_not_meet(tmp_path, call_types, compiled):
    """IREE's linker takes the first of two functions of one name, in silence: here a helper, and the kernels too."""

    def declare(name, expression):
        @op(f"kernels_cpu::{name}")
        def same(x: Tensor) -> Tensor:
            return eval(expression, {"v": x})

        @same.kernel(
            "cpu",
            function="kernel",
            code=f"""
            #include <stddef.h>
            __attribute__((noinline)) float helper(float v) {{ return {expression}; }}
            void kernel(const float *x, float *out, size_t i) {{ out[i] = helper(x[i]); }}
            """,
        )
        def launch(x):
            return Launch([x.numel()])

        return same

    ops = [declare("first", "v + 1"), declare("second", "v * 3")]
    x = torch.randn(5)
    calls = [call_types(each, (x,)) for each in ops]
    (target,) = parse_targets("cpu")
    texts = [
        each.lowerings[0].define(f"k{i}", call, target, tmp_path)
        for i, (each, call) in enumerate(zip(ops, calls, strict=True))
    ]

    class Both:
        """k1(k0(x)) in place of one definition."""

        def refuses(self, call):
            return None

        def define(self, symbol, call, target, folder):
            type_ = call.results[0].builtin
            return "".join(texts) + (
                f"func.func private @{symbol}(%x: {type_}) -> {type_} {{\n"
                f"%0 = call @k0(%x) : ({type_}) -> {type_}\n%1 = call @k1(%0) : ({type_}) -> {type_}\n"
                f"return %1 : {type_}\n}}\n"
            )

    ops[0].lowerings.append(Both())
    (result,) = compiled(ops[0], (x,), "cpu")(x)
    assert_close(result, (x + 1) * 3)


def test_tables_and_switches(compiled):
    """What compilers put beside the code: tables, addresses of them, literals, calls of memset and memcpy."""
    scale.lowerings.clear()

    @scale.kernel(
        "cpu",
        code="""
        #include "pipeline_kernel.h"
        const float table[8] = {1, 2, 3, 5, 7, 11, 13, 17};
        const float *const rows[2] = {table, table + 4};
        static float pick(int64_t step) {
          switch (step) {
            case 0: return rows[0][1]; case 1: return rows[1][0]; case 2: return rows[1][3];
            case 3: return 0.25f; case 4: return -8.0f; case 5: return rows[0][2];
          }
          return 0;
        }
        void scale(const float *x, float *out, float factor, int64_t step, int64_t n, size_t i) {
          struct { float part[4096]; } first = {{0}}, second;
          for (int64_t k = 0; k < 4096 && k < n; ++k) first.part[k] = x[k];
          second = *(volatile typeof(first) *)&first;
          out[i] = second.part[i] * pick(step) + factor + second.part[4000];
        }
        """,
    )
    def launch(x, factor, step):
        return Launch([x.numel()], [factor, step, x.numel()])

    x = torch.randn(9)
    for step, value in [(1, 7), (4, -8), (5, 3)]:
        assert_close(compiled(scale, (x, 0.5, step), "cpu")(x)[0], x * value + 0.5)


# --- Kernels that are wrong ---


def failure(call_types, args=None, **kernel) -> str:
    """The message of the one error that defining such a kernel of swiglu gives."""
    scale.lowerings.clear()
    scale.kernel("cpu", **kernel)(lambda x, factor, step: Launch([x.numel()], [factor]))
    call = call_types(scale, args or (torch.randn(3), 0.5, 1))
    with pytest.raises(LoweringError) as error:
        scale.lowerings[0].define("k", call, parse_targets("cpu")[0], Path("/nowhere"))
    return str(error.value)


def test_source_that_does_not_compile(call_types):
    message = failure(call_types, code="void scale(const float *x) {\n  syntax error;\n}")
    assert "C kernel scale" in message
    assert "code of scale:2" in message  # the user's own line


@pytest.mark.parametrize(
    "parameters",
    [
        "const float *x, float *out, double factor, size_t i",
        "const double *x, float *out, float factor, size_t i",
        "const float *x, float *out, float factor",
        "float *out, const float *x, float factor, size_t i",
    ],
)
def test_another_signature(call_types, parameters):
    message = failure(call_types, code=f"#include <stddef.h>\nvoid scale({parameters}) {{}}")
    assert "conflicting types" in message
    assert (
        "void scale(const float */*x*/, float */*out*/, float /*constant 0*/, size_t /*workgroup x*/);"
        in message
    )


def test_a_function_that_is_missing(call_types):
    message = failure(call_types, code="void other(void) {}")
    assert "defines no function 'scale'" in message
    assert "functions: other" in message


def test_functions_of_a_library(call_types):
    message = failure(
        call_types,
        code="""
        #include <stddef.h>
        float expf(float); float cosf(float);
        void scale(const float *x, float *out, float factor, size_t i) { out[i] = expf(x[i]) + cosf(factor); }
        """,
    )
    assert "cosf, expf" in message
    assert "pipeline_kernel.h" in message


# --- Object files ---


def compile_object(folder, source):
    compiler = toolchain.find("c")
    content = toolchain.compile_source(compiler, textwrap.dedent(source), folder, "generic")
    path = folder / "prebuilt.o"
    path.write_bytes(content)
    return path


SCALE = """
#include <stddef.h>
void scale(const float *x, float *out, float factor, size_t i) { out[i] = x[i] * factor; }
"""


def test_object_files_are_taken_as_they_are(tmp_path, compiled):
    scale.lowerings.clear()
    path = compile_object(tmp_path, SCALE)

    @scale.kernel("cpu", source=path)
    def launch(x, factor):
        return Launch([x.numel()], [factor])

    x = torch.randn(9)
    assert_close(compiled(scale, (x, 1.5, 0), "cpu")(x)[0], x * 1.5)
    assert scale.lowerings[0].title == "object file kernel prebuilt.o:scale"


def test_object_files_are_read_when_declared(tmp_path):
    path = compile_object(tmp_path, SCALE)
    with pytest.raises(LoweringError, match=r"defines no function 'scal' .*functions: scale"):
        scale.kernel("cpu", source=path, function="scal")(lambda x: Launch([1]))
    path = compile_object(tmp_path, "float expf(float); void scale(float *x) { x[0] = expf(1.0f); }")
    with pytest.raises(LoweringError, match="needs expf"):
        scale.kernel("cpu", source=path)(lambda x: Launch([1]))
    stripped = tmp_path / "stripped.o"
    for content in (b"", b"\x7fELF\x02\x01", path.read_bytes()[:200], b"!<arch>\n" * 20):
        stripped.write_bytes(content)
        with pytest.raises(LoweringError, match=r"ELF object file|damaged|symbol table"):
            scale.kernel("cpu", source=stripped)(lambda x: Launch([1]))


def test_a_linked_library_is_no_object_file(tmp_path):
    compile_object(tmp_path, SCALE)
    command = [*toolchain.find("c").command, "-shared", "-nostdlib", "prebuilt.o", "-o", "linked.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with pytest.raises(LoweringError, match="compile with -c"):
        scale.kernel("cpu", source=tmp_path / "linked.o")(lambda x: Launch([1]))
