// Mathematics for CPU kernels in C, which are linked with no library.
//
// float pk_expf(float), pk_logf, pk_tanhf, pk_erff, pk_sigmoidf, pk_sqrtf, pk_rsqrtf: within 3 units in the last
// place of float32 (sigmoid: 4, down to 2^-126). NaN stays NaN, infinities and zeros give what C's functions give.
// float16 and bfloat16 tensors are uint16_t here: pk_f16_to_f32, pk_f32_to_f16, pk_bf16_to_f32, pk_f32_to_bf16,
// to the nearest, ties to even.
//
// They do not branch, so that compilers vectorize loops that call them. memset and memcpy are here too, since
// compilers call them on their own.

#ifndef PIPELINE_KERNEL_H
#define PIPELINE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PK_INLINE static inline __attribute__((always_inline, unused))

PK_INLINE uint32_t pk_bits(float value) {
  union {
    float value;
    uint32_t bits;
  } word = {value};
  return word.bits;
}

PK_INLINE float pk_float(uint32_t bits) {
  union {
    uint32_t bits;
    float value;
  } word = {bits};
  return word.value;
}

PK_INLINE float pk_absf(float x) { return pk_float(pk_bits(x) & 0x7fffffffu); }

PK_INLINE float pk_copysignf(float size, float sign) {
  return pk_float((pk_bits(size) & 0x7fffffffu) | (pk_bits(sign) & 0x80000000u));
}

PK_INLINE float pk_sqrtf(float x) { return __builtin_sqrtf(x); }

PK_INLINE float pk_rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }

// exp(x) = 2^n * exp(r), |r| <= log(2) / 2. 2^n comes as two factors, since n reaches from -150 to 128.
PK_INLINE float pk_expf(float x) {
  float inside = x > 89.0f ? 89.0f : x;
  inside = inside < -104.0f ? -104.0f : inside;
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the lowest bits.
  float shifted = inside * 1.44269504f + 12582912.0f;
  float n = shifted - 12582912.0f;
  float r = (inside - n * 0.693145752f) - n * 1.42860677e-06f;
  float q = 0.0013814459f;
  q = q * r + 0.00836878177f;
  q = q * r + 0.0416683927f;
  q = q * r + 0.166665196f;
  q = q * r + 0.49999994f;
  float p = q * r * r + r + 1.0f;
  // Arithmetic on unsigned numbers may wrap: for NaN it does, and p is NaN.
  uint32_t whole = pk_bits(shifted) - 0x4b400000u;
  uint32_t half = (uint32_t)((int32_t)whole >> 1);
  return p * pk_float((half + 127u) << 23) * pk_float((whole - half + 127u) << 23);
}

// log(x) = n * log(2) + log(1 + f), 1 + f from sqrt(1/2) to sqrt(2).
PK_INLINE float pk_logf(float x) {
  bool small = x < 1.17549435e-38f;
  uint32_t bits = pk_bits(small ? x * 8388608.0f : x) - 0x3f3504f3u;
  float n = (float)((int32_t)bits >> 23) - (small ? 23.0f : 0.0f);
  float f = pk_float((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float q = 0.0675743148f;
  q = q * f - 0.116943181f;
  q = q * f + 0.118935674f;
  q = q * f - 0.124030903f;
  q = q * f + 0.142185479f;
  q = q * f - 0.166680902f;
  q = q * f + 0.200021669f;
  q = q * f - 0.250000089f;
  q = q * f + 0.333333105f;
  float result = n * 0.693145752f + (f + (n * 1.42860677e-06f + f * f * (f * q - 0.5f)));
  result = x == 0.0f ? -__builtin_inff() : result;
  result = x == __builtin_inff() ? x : result;
  return x >= 0.0f ? result : __builtin_nanf("");
}

PK_INLINE float pk_tanhf(float x) {
  float size = pk_absf(x), z = x * x;
  float q = -0.00569347851f;
  q = q * z + 0.0206303727f;
  q = q * z - 0.0537375994f;
  q = q * z + 0.133314252f;
  q = q * z - 0.333332807f;
  float near = pk_copysignf(x + x * z * q, x);
  float far = pk_copysignf(1.0f - 2.0f / (pk_expf(2.0f * size) + 1.0f), x);
  return size < 0.625f ? near : far;
}

// Below -88.72, where the result has no leading one, it is 0.
PK_INLINE float pk_sigmoidf(float x) { return 1.0f / (1.0f + pk_expf(-x)); }

PK_INLINE float pk_erff(float x) {
  float size = pk_absf(x), z = x * x;
  float q = -9.59824592e-06f;
  q = q * z + 0.000112437163f;
  q = q * z - 0.000848127995f;
  q = q * z + 0.00522085885f;
  q = q * z - 0.0268653762f;
  q = q * z + 0.112837814f;
  q = q * z - 0.376126379f;
  q = q * z + 1.12837923f;
  // From 1 to 4: 1 - p(t), t from -1 to 1. Beyond 4 it is 1 in float32.
  float t = ((size < 4.0f ? size : 4.0f) - 2.5f) * 0.666666667f;
  float p = -6.12121148e-05f;
  p = p * t + 0.00113507430f;
  p = p * t - 0.00165249326f;
  p = p * t - 0.00344126951f;
  p = p * t + 0.0105486148f;
  p = p * t - 0.00746655883f;
  p = p * t - 0.00966121443f;
  p = p * t + 0.0321554765f;
  p = p * t - 0.0463657491f;
  p = p * t + 0.0436042696f;
  p = p * t - 0.0281903764f;
  p = p * t + 0.0122557301f;
  p = p * t - 0.00326716481f;
  p = p * t + 0.000406923122f;
  float far = pk_copysignf(size < 4.0f ? 1.0f - p : 1.0f, x);
  float result = size < 1.0f ? x * q : far;
  return x == x ? result : x;
}

PK_INLINE float pk_bf16_to_f32(uint16_t bits) { return pk_float((uint32_t)bits << 16); }

PK_INLINE uint16_t pk_f32_to_bf16(float value) {
  uint32_t bits = pk_bits(value);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (uint16_t)(value == value ? rounded : (bits >> 16) | 0x40u);
}

// A float16 below 2^-14 has no leading one: its bits are a number of 2^-24, and are converted as such.
PK_INLINE float pk_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  float normal = pk_float((rest << 13) + (112u << 23));
  float tiny = (float)(int32_t)rest * 5.9604644775390625e-08f;
  float special = pk_float((rest << 13) | 0x7f800000u);
  float size = rest < 0x0400u ? tiny : rest < 0x7c00u ? normal : special;
  return pk_float(pk_bits(size) | sign);
}

PK_INLINE uint16_t pk_f32_to_f16(float value) {
  uint32_t bits = pk_bits(value), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
  uint32_t normal = (rest - (112u << 23) + 0x0fffu + ((rest >> 13) & 1u)) >> 13;
  // Added to 1/2, a number below 2^-14 is rounded to a multiple of 2^-24, in the lowest bits of the sum.
  uint32_t tiny = pk_bits(pk_float(rest < 0x38800000u ? rest : 0u) + 0.5f) - 0x3f000000u;
  uint32_t result = rest < 0x38800000u ? tiny : normal;
  result = rest >= 0x477ff000u ? 0x7c00u : result;
  result = rest > 0x7f800000u ? 0x7e00u : result;
  return (uint16_t)(sign | result);
}

// To clear and copy larger variables. gcc must not see a memset in memset.
#if defined(__GNUC__) && !defined(__clang__)
#define PK_MEMORY __attribute__((optimize("no-tree-loop-distribute-patterns")))
#else
#define PK_MEMORY
#endif

PK_MEMORY void *memset(void *to, int value, size_t count) {
  for (size_t i = 0; i < count; ++i) ((unsigned char *)to)[i] = (unsigned char)value;
  return to;
}

PK_MEMORY void *memcpy(void *restrict to, const void *restrict from, size_t count) {
  for (size_t i = 0; i < count; ++i) ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
  return to;
}

#endif
