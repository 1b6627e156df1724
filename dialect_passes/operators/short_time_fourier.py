"""Short-time Fourier transforms and their inverse, by frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .registry import decomposes

if TYPE_CHECKING:
    from torch import Tensor


def _window(window: Tensor | None, length: int, n_fft: int, like: Tensor) -> Tensor:
    """The window in the middle of a frame; ones without one."""
    import torch

    if window is None:
        window = torch.ones(length, dtype=like.real.dtype if like.is_complex() else like.dtype)
    before = (n_fft - length) // 2
    return torch.nn.functional.pad(window, (before, n_fft - length - before)) if length < n_fft else window


@decomposes("aten.stft.center")
def stft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Overlapping frames, times the window, transformed."""
    import torch

    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    batched = x.dim() > 1
    signal = x if batched else x.unsqueeze(0)
    if center:
        signal = torch.nn.functional.pad(signal, (n_fft // 2, n_fft // 2), pad_mode)
    elif align_to_window:
        return NotImplemented
    frames = signal.unfold(-1, n_fft, hop)
    if window is not None or length < n_fft:
        frames = frames * _window(window, length, n_fft, x)
    norm = "ortho" if normalized else "backward"
    real = not frames.is_complex()
    half = real if onesided is None else onesided
    spectrum = torch.fft.rfft(frames, norm=norm) if half else torch.fft.fft(frames, norm=norm)
    spectrum = spectrum.transpose(-1, -2)
    spectrum = spectrum if batched else spectrum.squeeze(0)
    return spectrum if return_complex else torch.view_as_real(spectrum)


@decomposes("aten.stft.default")
def stft_uncentered(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Without padding."""
    rest = (normalized, onesided, return_complex, align_to_window)
    return stft(x, n_fft, hop_length, win_length, window, False, "reflect", *rest)


def _overlapped(frames: Tensor, hop: int) -> Tensor:
    """The sum of frames [..., count, n], each `hop` after the one before it: by pieces of that length."""
    import torch

    n = frames.shape[-1]
    pieces = -(-n // hop)
    padded = torch.nn.functional.pad(frames, (0, pieces * hop - n))
    parts = padded.unflatten(-1, (pieces, hop)).unbind(-2)
    shifted = [torch.nn.functional.pad(part, (0, 0, i, pieces - 1 - i)) for i, part in enumerate(parts)]
    total = shifted[0]
    for part in shifted[1:]:
        total = total + part
    return total.flatten(-2)[..., : n + hop * (frames.shape[-2] - 1)]


@decomposes("aten.istft.default")
def istft(
    z: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    return_complex: bool = False,
) -> Tensor:
    """Frames transformed back, added where they overlap, over the sum of the squared windows.

    Eager refuses windows whose sum is zero somewhere; that cannot be seen here and gives NaN.
    """
    import torch

    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    half = z.shape[-2] != n_fft if onesided is None else onesided
    norm = "ortho" if normalized else "backward"
    spectrum = z.transpose(-1, -2)
    if return_complex:
        frames = torch.fft.ifft(spectrum, n_fft, norm=norm)
    else:
        bins = spectrum if half else spectrum[..., : n_fft // 2 + 1]
        frames = torch.fft.irfft(bins, n_fft, norm=norm)
    weights = _window(window, size, n_fft, z)
    signal = _overlapped(frames * weights, hop)
    envelope = _overlapped((weights * weights).expand(z.shape[-1], n_fft), hop)
    start = n_fft // 2 if center else 0
    end = signal.shape[-1] - (n_fft // 2 if center else 0) if length is None else start + length
    value = signal[..., start:end] / envelope[start:end]
    missing = end - start - value.shape[-1]
    return torch.nn.functional.pad(value, (0, missing)) if length is not None else value
