"""Wrong kernels and launch functions: one clear error when they are declared, or a refusal that says why."""

import re

import pytest
import torch
from torch import Tensor

from pipeline.dialect_passes.custom_operators import toolchain
from pipeline.dialect_passes.custom_operators.call_types import CallTypes, TensorType
from pipeline.dialect_passes.custom_operators.declaration import op
from pipeline.dialect_passes.custom_operators.launch import Launch
from pipeline.dialect_passes.custom_operators.lowering import LoweringError, Refused
from pipeline.dialect_passes.custom_operators.native_kernel import prebuilt_name

SOURCE = "void lerp(const float *a, const float *b, float *out, float t) {}"


@op("kernel_declarations::lerp")
def lerp(a: Tensor, b: Tensor, t: float = 0.5) -> Tensor:
    return torch.lerp(a, b, t)


@op("kernel_declarations::add_one", mutates_args=("x",))
def add_one(x: Tensor) -> None:
    x.add_(1)


@pytest.fixture(autouse=True)
def _no_lowerings():
    lerp.lowerings.clear()


def call(shape=(4, 3), dtype="float32", **others) -> CallTypes:
    type_ = TensorType(shape, dtype)
    sizes = None if None in shape else (shape,)
    return CallTypes({"a": type_, "b": type_, "t": 0.5} | others, (type_,), sizes)


def launch(a, b, t):
    return Launch([1], [t])


@pytest.mark.parametrize(
    ("target", "options", "says"),
    [
        ("gpu", {"code": SOURCE}, "'gpu' is no target; choose from cpu, vulkan, cuda"),
        ("cpu", {}, "give either source= (a file) or code= (text)"),
        ("cpu", {"code": SOURCE, "source": "x.c"}, "give either source= (a file) or code= (text)"),
        ("cpu", {"source": "missing.c"}, "source is relative to"),
        ("cpu", {"source": "missing.o"}, "there is no file"),
        ("cpu", {"source": "kernel.cu"}, "source 'kernel.cu' is none of .c, .o"),
        ("vulkan", {"source": "kernel.c"}, "is none of .comp, .glsl, .spv"),
        ("cuda", {"code": SOURCE}, "give workgroup_size=(threads, 1, 1)"),
        ("cuda", {"code": SOURCE, "workgroup_size": (0, 1, 1)}, "must be three numbers"),
        ("cuda", {"code": SOURCE, "workgroup_size": (64, 64, 1)}, "at most 1024"),
        ("vulkan", {"code": "", "workgroup_size": (64, 1, 1)}, "up to layout(local_size_x = ...)"),
        ("vulkan", {"code": "", "function": "lerp"}, "a GLSL shader's function is main"),
        ("cpu", {"code": SOURCE, "function": "my kernel"}, "'my kernel' is no name of a function"),
        ("cpu", {"code": SOURCE, "dtypes": ["float32"]}, "torch dtypes, such as [torch.float32]"),
        ("cpu", {"code": SOURCE, "dtypes": "float32"}, "torch dtypes, such as [torch.float32]"),
        ("cpu", {"code": SOURCE, "dtypes": []}, "torch dtypes, such as [torch.float32]"),
        (
            "cpu",
            {"code": SOURCE, "dtypes": {"t": [torch.float32]}},
            "'t', which is no tensor; choose from a, b",
        ),
    ],
)
def test_wrong_declarations(target, options, says):
    with pytest.raises(LoweringError, match=re.escape(says)):
        lerp.kernel(target, **options)(launch)
    assert lerp.lowerings == []


def test_a_launch_function_with_an_unknown_parameter():
    with pytest.raises(
        LoweringError, match="'weight' is no argument of the operator; choose from a, b, t and results"
    ):
        lerp.kernel("cpu", code=SOURCE)(lambda a, weight: Launch([1]))


def test_operators_that_change_their_arguments_take_no_kernels():
    with pytest.raises(LoweringError, match="changes x in place"):
        add_one.kernel("cpu", code="void add_one(float *x) {}")(lambda x: Launch([1]))
    with pytest.raises(LoweringError, match="changes arguments in place"):
        add_one.lowering("cpu")(lambda call: "")


def refusing(function, types=None, **options):
    lerp.kernel("cpu", **{"code": SOURCE, **options})(function)
    return lerp.lowerings[-1].refuses(types or call())


@pytest.mark.compiler("c")
@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda a: None, "must return Launch"),
        (lambda a: Launch([]), "workgroups must be one to three counts"),
        (lambda a: Launch([1, 1, 1, 1]), "workgroups must be one to three counts"),
        (lambda a: Launch([-1]), "workgroups must be one to three counts"),
        (lambda a: Launch([1.5]), "workgroups must be one to three counts"),
        (lambda a: Launch([a.shape[0] // 256]), "no workgroup would write the results float32[4, 3]"),
        (lambda a: Launch([1], ["7"]), "the constant '7' is neither a number nor a size"),
        (lambda a: Launch([1], [2**63]), "does not fit into i64"),
        (lambda a: Launch([1], [1e39]), "does not fit into f32"),
        (lambda a: Launch([1], shapes=[(4,)]), "must name every size"),
        (lambda a: Launch([1], shapes=[(4, 4)]), "shapes says 4 for a size that is 3"),
        (lambda a: Launch([1], shapes=[(4, None)]), "shapes holds None"),
        (lambda a: Launch([a.shape[5]]), "IndexError"),
    ],
)
def test_wrong_launch_functions(function, says):
    with pytest.raises(LoweringError, match=re.escape(says)) as error:
        refusing(function)
    assert "test_kernel_declarations.py:" in str(error.value)


@pytest.mark.compiler("c")
def test_decisions_on_unknown_sizes():
    def small_only(a):
        return Launch([1 if a.shape[0] < 64 else 2])

    with pytest.raises(LoweringError, match=r"known only when the program runs(.|\n)*if a.shape\[0\] < 64"):
        refusing(small_only, call((None, 3)))


@pytest.mark.compiler("c")
def test_result_sizes_that_nobody_told():
    assert "return Launch(shapes=...)" in refusing(lambda a: Launch([1]), call((None, 3)))
    lerp.lowerings.clear()
    assert refusing(lambda a: Launch([1], shapes=[a.shape]), call((None, 3))) is None


@pytest.mark.compiler("c")
def test_dtypes():
    assert refusing(launch, dtypes=[torch.float32]) is None
    wrong = call(dtype="float16")
    assert (
        refusing(launch, wrong, dtypes=[torch.float32, torch.float64])
        == "a is float16; it takes float32, float64"
    )
    assert refusing(launch, call(dtype="float8_e4m3fn")) == "a is float8_e4m3fn, which no kernel takes"
    mixed = call(b=TensorType((4, 3), "int64"))
    assert refusing(launch, mixed, dtypes={"a": [torch.float32]}) is None
    assert refusing(launch, mixed, dtypes={"b": [torch.float32]}) == "b is int64; it takes float32"


def test_without_a_compiler_it_refuses(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (
        refusing(launch)
        == "there is no compiler for C here: install a C compiler (clang, gcc, or what CC names)"
    )
    lerp.kernel("vulkan", code="#version 450")(launch)
    assert "glslangValidator or glslc" in lerp.lowerings[-1].refuses(call())
    lerp.kernel("cuda", code="", workgroup_size=(1, 1, 1))(launch)
    assert "nvcc" in lerp.lowerings[-1].refuses(call())


@pytest.mark.compiler("c")
def test_prebuilt_kernels_serve_machines_without_a_compiler(monkeypatch, tmp_path, compiled):
    """What CMake installs: named after the hash of source and headers, so that an older one is never taken."""
    source = tmp_path / "lerp.c"
    code = "void lerp(const float *a, const float *b, float *out, float t, long n, unsigned long w)"
    source.write_text(code + "{ for (long i = 0; i < n; ++i) out[i] = a[i] + t * (b[i] - a[i]); }")
    content = toolchain.compile_source(toolchain.find("c"), source.read_text(), tmp_path, "generic")
    (tmp_path / "prebuilt").mkdir()
    (tmp_path / "prebuilt" / prebuilt_name(source, "cpu")).write_bytes(content)
    lerp.kernel("cpu", source=source)(lambda a, t: Launch([1], [t, a.numel()]))

    a, b = torch.randn(3, 4), torch.randn(3, 4)
    with monkeypatch.context() as without:
        without.setattr(toolchain, "find", lambda kind: None)
        (result,) = compiled(lerp, (a, b, 0.25), "cpu")(a, b)
        torch.testing.assert_close(result, lerp.meaning(a, b, 0.25))
        source.write_text(source.read_text() + "\n// edited")
        assert "there is no compiler" in lerp.lowerings[0].refuses(call())
        source.write_text(source.read_text().removesuffix("\n// edited"))
        assert lerp.lowerings[0].refuses(call()) is None
        (tmp_path / "helpers.h").write_text("// new")
        assert "there is no compiler" in lerp.lowerings[0].refuses(call())


def test_relative_sources_are_beside_the_declaring_file(tmp_path):
    (tmp_path / "kernel.c").write_text(SOURCE)
    module = tmp_path / "operators.py"
    module.write_text("def launch(a):\n    raise AssertionError\n")
    names: dict = {}
    exec(compile(module.read_text(), str(module), "exec"), names)
    lerp.kernel("cpu", source="kernel.c")(names["launch"])
    assert lerp.lowerings[0].title == "C kernel kernel.c:lerp"


# --- Declared again ---


def again(file, line, expression):
    """A lowering function as a notebook cell makes it."""
    names: dict = {"Launch": Launch, "Refused": Refused}
    exec(
        compile("\n" * (line - 1) + f"def lower(call):\n    raise Refused({expression!r})", file, "exec"),
        names,
    )
    return names["lower"]


def test_a_cell_that_runs_again_replaces_what_it_declared():
    lerp.lowering("cpu")(again("cell-1", 3, "old"))
    lerp.lowering("cpu")(again("cell-2", 1, "new"))
    lerp.lowering("vulkan")(again("cell-2", 9, "another target"))
    assert [lowering.refuses(call()) for lowering in lerp.lowerings] == ["new", "another target"]


def test_two_of_one_name_in_one_file_are_an_error():
    lerp.lowering("cpu")(again("ops.py", 3, "first"))
    with pytest.raises(
        LoweringError, match=r"two lowerings for cpu called 'lower' \(lower, ops.py:3 and lower, ops.py:8\)"
    ):
        lerp.lowering("cpu")(again("ops.py", 8, "second"))


def test_kernels_for_different_functions_or_dtypes_stand_side_by_side():
    for dtype, function in [(torch.float32, "f"), (torch.float32, "g"), (torch.float64, "f")]:
        lerp.kernel("cpu", code=SOURCE, function=function, dtypes=[dtype])(launch)
    assert len(lerp.lowerings) == 3
    lerp.kernel("cpu", code=SOURCE, function="g", dtypes=[torch.float32])(launch)
    assert len(lerp.lowerings) == 3
