"""``pipeline inspect``: needs only the runtime, and no device."""

from __future__ import annotations

from pathlib import Path

from .runtime import examples, read_manifest, structure
from .runtime.artifact import weights_path
from .runtime.manifest import EntryPoint, Manifest


def inspect(artifact: Path, as_json: bool) -> None:
    """Prints the manifest, for people or as JSON."""
    manifest = read_manifest(artifact)
    if as_json:
        print(manifest.to_json())
        return
    for line in _lines(artifact, manifest):
        print(line)


def _lines(artifact: Path, manifest: Manifest) -> list[str]:
    lines = [f"{artifact.name}: {artifact.stat().st_size:,} bytes"]
    for entry in manifest.entry_points.values():
        lines += _entry_lines(entry)
    lines += ["dynamic dimensions:"] if manifest.dimensions else []
    lines += [f"  {bounds.describe(name)}" for name, bounds in manifest.dimensions.items()]
    lines += ["state, kept from call to call:"] if manifest.state else []
    lines += [f"  {name}: {spec}" for name, spec in manifest.state.items()]
    lines.append(_weights_line(artifact, manifest))
    for target in manifest.targets:
        lines.append(f"target {target['device']} {target['architecture']}: {target['rung']}")
        lines += [
            f"  {key}: {_text(target[key])}" for key in sorted(target) if key not in _SHOWN and target[key]
        ]
    lines.append("made by " + ", ".join(f"{name} {number}" for name, number in manifest.versions.items()))
    return lines + [f"note: {note}" for note in manifest.notes]


_SHOWN = ("device", "architecture", "rung")


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _entry_lines(entry: EntryPoint) -> list[str]:
    lines = [f"{entry.name}:"]
    lines += [f"  {spec.name}: {spec}" for spec in entry.inputs]
    lines += [f"  -> {spec.name}: {spec}" for spec in entry.outputs]
    lines += [f"  updates the argument {entry.inputs[number].name}" for number in entry.mutated_inputs]
    lines += [f"  updates the state {name}" for name in entry.state_outputs]
    lines += [f"  draws random numbers: {draw.tensor}" for draw in entry.draws]
    if examples.is_recipe(entry):
        lines.append("  example inputs: seeded random values for the large ones")
    for name in dict.fromkeys(structure.classes(entry.result)):
        if not structure.importable(name):
            lines.append(f"  {name} cannot be imported here: results come as a dict with the same keys")
    return lines


def _weights_line(artifact: Path, manifest: Manifest) -> str:
    count, nbytes = len(manifest.weights.table), manifest.weights.nbytes
    if manifest.weights.storage == "none":
        return "weights: none"
    place = "inside"
    if manifest.weights.storage == "external":
        beside = weights_path(artifact)
        place = f"in {beside.name}" + ("" if beside.exists() else " (missing)")
    return f"weights: {count} tensors, {nbytes:,} bytes, {place}"
