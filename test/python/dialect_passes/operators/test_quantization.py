"""Quantized operators of PT2E and of training for it, all in one program, as in eager."""

import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed

import pipeline

Q = torch.ops.quantized_decomposed
BYTES = -128, 127, torch.int8


class Quantized(torch.nn.Module):
    def forward(self, x, scales, zeros):
        scale, zero = Q.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
        symmetric = Q.choose_qparams_symmetric.tensor(x, 0, 255, 1e-5, torch.uint8)
        dynamic = Q.quantize_per_tensor.tensor(x, scale, zero, *BYTES)
        static = Q.quantize_per_tensor(x, 0.05, 3, *BYTES)
        channels = Q.quantize_per_channel(x, scales, zeros, 0, *BYTES)
        rows = Q.choose_qparams_per_token(x, torch.int8)
        tokens = Q.choose_qparams_per_token_asymmetric(x, torch.int8)
        groups = Q.quantize_per_channel_group(x, scales.reshape(2, 2), zeros.reshape(2, 2), *BYTES, 8)
        return (
            *(scale, zero, *symmetric, dynamic, static, channels, *rows, *tokens, groups),
            Q.dequantize_per_tensor.tensor(dynamic, scale, zero, *BYTES),
            Q.dequantize_per_channel(channels, scales, zeros, 0, *BYTES),
            Q.dequantize_per_token(Q.quantize_per_token(x, *tokens, *BYTES), *tokens, *BYTES, torch.float32),
            Q.dequantize_per_channel_group(
                groups, scales.reshape(2, 2), zeros.reshape(2, 2), *BYTES, 8, torch.float32
            ),
            torch.fake_quantize_per_channel_affine(x * 9, scales, zeros.int(), 0, -128, 127),
            torch.fake_quantize_per_channel_affine(x * 9, scales, zeros.float() + 0.3, 0, -128, 127),
            torch.ops.aten._int_mm(static.repeat(5, 1), dynamic.t().repeat(1, 2)),
            torch.ops.aten._weight_int8pack_mm(x, channels, scales),
        )


def test_values():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 8, generator=generator)
    args = x, torch.rand(4, generator=generator) / 10 + 0.01, torch.tensor([0, 3, -2, 1])
    for found, expected in zip(
        pipeline.compile(Quantized(), args=args)(*args), Quantized()(*args), strict=True
    ):
        torch.testing.assert_close(found, expected)
