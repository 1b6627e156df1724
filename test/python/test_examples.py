"""Every model in examples/, in its small configuration: right by `verify`, at several sizes where dynamic.

Those named train_* learn a task: see test/python/training/test_examples.py.
`tools/verify_examples.py` does the same at full size.
"""

import functools
import importlib.util
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_leaves
from transformers import LlamaForCausalLM

from pipeline.api import capture_checked, compile_options
from pipeline.compiler import compile_program
from pipeline.entry_points import EntrySpec, further_inputs, split_inputs
from pipeline.runtime import Executable
from pipeline.verify import verify

EXAMPLES = Path(__file__).parents[2] / "examples"
# One billion parameters, kept to measure the memory of a compilation; llama.py is the same architecture.
TOO_BIG = {"llama_1b"}
NAMES = sorted({path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("train_")} - TOO_BIG)
DYNAMIC = {"bert", "gpt2", "llama", "llama_kv_cache", "lstm", "mlp", "resnet18", "t5", "unet"}


@functools.cache
def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def small(name):
    """The small model of an example and its entry points."""
    module = example(name)
    model = module.get_model(module.small_config()) if hasattr(module, "small_config") else module.get_model()
    if hasattr(module, "small_entry_points"):
        return model, {k: EntrySpec.from_user(k, v) for k, v in module.small_entry_points().items()}
    size = "small" if hasattr(module, "small_inputs") else "get"
    inputs = module.small_inputs() if size == "small" else module.get_example_inputs()
    further = getattr(module, f"{size}_further_inputs", list)()
    args, kwargs = split_inputs(inputs, name)
    shapes = getattr(module, "dynamic_shapes", None)
    return model, {"main": EntrySpec(args, kwargs, shapes, further_inputs=further_inputs(further, name))}


@functools.cache
def compiled(name):
    model, entries = small(name)
    options = compile_options("cpu")
    artifact = compile_program(capture_checked(model, entries, options), options)
    return model, entries, Executable(artifact)


@pytest.mark.parametrize("name", NAMES)
def test_example_is_right(name):
    model, entries, executable = compiled(name)
    found = verify(model, entries, executable)
    outputs = sum(len(entry.outputs) for entry in executable.manifest.entry_points.values())
    assert len(found) >= outputs
    assert [item for item in found if not item.right] == []


@pytest.mark.parametrize("name", sorted(DYNAMIC))
def test_dynamic_example_is_compared_at_three_other_sizes(name):
    """`verify` above ran these; here only that they are what they claim."""
    _, entries = small(name)
    spec = next(iter(entries.values()))
    sizes = {shapes(spec.args, spec.kwargs)} | {shapes(*inputs) for inputs in spec.further_inputs}
    assert len(sizes) >= 4


def shapes(args, kwargs):
    return tuple(tuple(leaf.shape) for leaf in tree_leaves((args, dict(kwargs))))


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"batchnorm_train", "llama_kv_cache"}))
def test_outputs_depend_on_the_inputs(name):
    """Random weights can make a model so flat that a wrong result stays within tolerance."""
    model, entries = small(name)
    spec = entries["main"]
    torch.manual_seed(1)
    other = torch.utils._pytree.tree_map(varied, (spec.args, dict(spec.kwargs)))
    with torch.no_grad():
        before, after = (
            tree_leaves(model(*spec.args, **spec.kwargs)),
            tree_leaves(model(*other[0], **other[1])),
        )
    assert (before[0] - after[0]).abs().mean() > 1e-3


def varied(value):
    if value.is_floating_point():
        return torch.randn_like(value)
    return value if value.max() <= 1 else value.flip(-1)


@pytest.fixture(scope="module")
def llama():
    """The cached Llama compiled, its model without a cache, and a conversation of tokens."""
    model, _, executable = compiled("llama_kv_cache")
    plain: LlamaForCausalLM = model.model
    torch.manual_seed(2)
    return executable, plain, torch.randint(97, (2, 20))


def converse(executable, tokens, prompt):
    """Logits of every token but the last prompt ones come from decode steps."""
    found = [executable.prefill(tokens[None, :prompt])]
    for position in range(prompt, len(tokens)):
        found.append(executable.decode(tokens[None, position : position + 1], torch.tensor(position)))
    return torch.cat(found, dim=1)


def without_cache(plain, tokens):
    with torch.no_grad():
        return plain(tokens[None], use_cache=False).logits


@pytest.mark.parametrize("prompt", [1, 7, 19])
def test_prefill_and_decode_give_what_the_model_gives_without_a_cache(llama, prompt):
    executable, plain, tokens = llama
    executable.reset()
    logits = converse(executable, tokens[0], prompt)
    torch.testing.assert_close(logits, without_cache(plain, tokens[0]))


def test_reset_starts_a_new_conversation(llama):
    executable, plain, tokens = llama
    converse(executable, tokens[0], 7)
    executable.reset()
    assert all(not value.any() for value in executable.state_dict().values())
    # Decoding from position 0 without a prefill shows whether anything of the first conversation is left.
    steps = [executable.decode(tokens[1][None, i : i + 1], torch.tensor(i)) for i in range(5)]
    torch.testing.assert_close(torch.cat(steps, dim=1), without_cache(plain, tokens[1][:5]))


def test_two_conversations_do_not_disturb_each_other(llama):
    executable, plain, tokens = llama
    executable.reset()
    fork = executable.new_state()
    first, second = [executable.prefill(tokens[0][None, :7])], [fork.prefill(tokens[1][None, :4])]
    for step in range(4):
        for found, exe, row, start in ((first, executable, 0, 7), (second, fork, 1, 4)):
            position = start + step
            token = tokens[row][None, position : position + 1]
            found.append(exe.decode(token, torch.tensor(position)))
    torch.testing.assert_close(torch.cat(first, dim=1), without_cache(plain, tokens[0][:11]))
    torch.testing.assert_close(torch.cat(second, dim=1), without_cache(plain, tokens[1][:8]))
