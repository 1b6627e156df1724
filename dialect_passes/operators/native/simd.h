// Sixteen floats at a time, for the kernels of this folder: loads and stores of float32 and bfloat16, sums, exp.
//
// The vectors are those of gcc and clang (__attribute__((vector_size))): on a CPU with narrower registers a
// compiler splits them, so that one source serves all. No C library stands behind the kernels.

#pragma once

#include <stddef.h>
#include <stdint.h>

#define LANES 16
#define INLINE static inline __attribute__((always_inline))

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef Floats FloatsInMemory __attribute__((aligned(4), may_alias));
typedef uint16_t HalvesInMemory __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint32_t Words __attribute__((vector_size(64)));

// bfloat16 is the upper half of a float32.
typedef uint16_t bfloat16;

INLINE Floats all(float value) { return (Floats){} + value; }

INLINE Floats select(Ints condition, Floats yes, Floats no) {
  return (Floats)(((Ints)yes & condition) | ((Ints)no & ~condition));
}

// NaN wins, as in torch.amax.
INLINE Floats maximum(Floats a, Floats b) { return select((a > b) | (a != a), a, b); }

INLINE float load_one_f32(const float *from) { return *from; }

INLINE float load_one_bf16(const bfloat16 *from) {
  union {
    uint32_t bits;
    float value;
  } word = {(uint32_t)*from << 16};
  return word.value;
}

INLINE Floats load_f32(const float *from) { return *(const FloatsInMemory *)from; }

INLINE Floats load_bf16(const bfloat16 *from) {
  return (Floats)(__builtin_convertvector(*(const HalvesInMemory *)from, Words) << 16);
}

INLINE void store_f32(float *to, Floats value) { *(FloatsInMemory *)to = value; }

// To the nearest, ties to even; NaN stays NaN.
INLINE void store_bf16(bfloat16 *to, Floats value) {
  Words bits = (Words)value;
  Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  Words nan = (Words)(value != value);
  rounded = (rounded & ~nan) | (((bits >> 16) | 0x40) & nan);
  *(HalvesInMemory *)to = __builtin_convertvector(rounded, HalvesInMemory);
}

// By the type of the pointer.
#define LOAD(from) _Generic((from), const float *: load_f32, float *: load_f32, default: load_bf16)((const void *)(from))
#define LOAD_ONE(from) \
  _Generic((from), const float *: load_one_f32, float *: load_one_f32, default: load_one_bf16)((const void *)(from))
#define STORE(to, value) _Generic((to), float *: store_f32, default: store_bf16)((void *)(to), value)

#ifdef __clang__
#define SHUFFLE(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define SHUFFLE(v, ...) __builtin_shuffle(v, (Ints){__VA_ARGS__})
#endif

// Adds the upper half to the lower one, down to one lane.
INLINE float sum(Floats v) {
  v += SHUFFLE(v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  v += SHUFFLE(v, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3);
  v += SHUFFLE(v, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1);
  return v[0] + v[1];
}

INLINE float largest(Floats v) {
  v = maximum(v, SHUFFLE(v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  v = maximum(v, SHUFFLE(v, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3));
  v = maximum(v, SHUFFLE(v, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1));
  return maximum(v, SHUFFLE(v, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0))[0];
}

// exp(x) for x <= 0 or NaN, as in a softmax: 2^k * exp(r) with |r| <= log(2) / 2. The relative error is below
// 2^-22; below -87 it is 0, where the true value is below 2^-125.
INLINE Floats exponential_of_negative(Floats x) {
  Ints under = x < all(-87.0f);
  Floats inside = select(under, (Floats){}, x);
  // Adding 1.5 * 2^23 and taking it away rounds to the nearest integer.
  Floats k = (inside * 1.44269504f + 12582912.0f) - 12582912.0f;
  Floats r = (inside - k * 0.693145751953125f) - k * 1.42860677e-06f;
  Floats p = all(1.98756915e-4f);
  p = p * r + 1.39819995e-3f;
  p = p * r + 8.33345190e-3f;
  p = p * r + 4.16657959e-2f;
  p = p * r + 1.66666657e-1f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  Floats scaled = (Floats)((Ints)p + (__builtin_convertvector(k, Ints) << 23));
  return select(x != x, x, select(under, (Floats){}, scaled));
}
