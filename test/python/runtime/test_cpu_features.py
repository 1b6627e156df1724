"""What /proc/cpuinfo says, in LLVM's names: a feature missed here is a SIGILL, one too many a false refusal."""

import platform
from pathlib import Path

import pytest

from pipeline.runtime import cpu_features

X86 = """\
processor\t: 0
model name\t: Test CPU
flags\t\t: fpu tsc cx8 cmov mmx fxsr sse sse2 ht lm pni pclmulqdq ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt aes \
xsave avx f16c rdrand lahf_lm abm 3dnowprefetch bmi1 avx2 bmi2 invpcid rdseed adx clflushopt sha_ni xsaveopt \
xsavec xgetbv1 vaes vpclmulqdq
bugs\t\t: spectre_v1

processor\t: 1
flags\t\t: fpu
"""
X86_FEATURES = (
    "64bit adx aes avx avx2 bmi bmi2 clflushopt cmov crc32 cx16 cx8 f16c fma fxsr invpcid lzcnt mmx movbe "
    "pclmul popcnt prfchw rdrnd rdseed sahf sha sse sse2 sse3 sse4.1 sse4.2 ssse3 vaes vpclmulqdq x87 xsave "
    "xsavec xsaveopt"
)
ARM = """\
processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp \
i8mm bf16 flagm2 paca fcma jscvt uscat ilrcpc
CPU implementer\t: 0x41
"""
ARM_FEATURES = (
    "fp-armv8 neon aes crc lse fullfp16 rdm rcpc ccpp dotprod i8mm bf16 altnzcv pauth "
    " complxnum jsconv lse2 rcpc-immo v8a v8.2a ras"
)


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    """Replaces /proc/cpuinfo by a text (None: there is no such file)."""

    def replace(text: str | None) -> None:
        path = tmp_path / "cpuinfo"
        if text is not None:
            path.write_text(text)
        monkeypatch.setattr(cpu_features, "_CPUINFO", path)
        cpu_features.host_flags.cache_clear()

    yield replace
    cpu_features.host_flags.cache_clear()


@pytest.mark.parametrize(("text", "features"), [(X86, X86_FEATURES), (ARM, ARM_FEATURES)])
def test_nothing_is_missing(cpuinfo, text: str, features: str) -> None:
    cpuinfo(text)
    assert cpu_features.missing(features.split()) == []


def test_what_is_missing_is_named_in_llvm_names(cpuinfo) -> None:
    cpuinfo(X86)
    assert cpu_features.missing(["avx2", "avx512f", "avx512vnni", "amx-tile", "sse4a"]) == [
        "avx512f",
        "avx512vnni",
        "amx-tile",
        "sse4a",
    ]
    cpuinfo(ARM)
    assert cpu_features.missing(["neon", "sve", "sve2", "sme"]) == ["sve", "sve2", "sme"]


@pytest.mark.parametrize("text", [None, "processor\t: 0\n", ""])
def test_a_system_that_lists_nothing_refuses_nothing(cpuinfo, text: str | None) -> None:
    cpuinfo(text)
    assert cpu_features.host_flags() is None
    assert cpu_features.missing(["avx512f"]) == []


def test_each_alias_is_needed(cpuinfo) -> None:
    """Every feature above is really looked up: without its own flag it is missing."""
    for text, features in ((X86, X86_FEATURES), (ARM, ARM_FEATURES)):
        cpuinfo("flags : nothing\n" if text is X86 else "Features : nothing\n")
        assert set(features.split()) - set(cpu_features.missing(features.split())) <= {"v8a", "v8.2a", "ras"}


@pytest.mark.parametrize(
    ("machine", "expected"), [("AMD64", "x86_64"), ("arm64", "aarch64"), ("riscv64", "riscv64")]
)
def test_architecture(monkeypatch, machine: str, expected: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert cpu_features.host_architecture() == expected


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="this system has no /proc/cpuinfo")
def test_this_machine_lists_its_flags() -> None:
    assert cpu_features.host_flags()


def test_features_that_only_intrinsics_use_refuse_nothing(cpuinfo) -> None:
    """A guest's CPUID has `shstk` where its kernel hides it: what is compiled for the host must run there."""
    cpuinfo(X86)
    assert cpu_features.missing(["avx2", "shstk", "uintr", "ptwrite", "kl", "enqcmd", "waitpkg"]) == []
