// Rotates the first `rotated` of the `width` elements of each head at each position, and copies the rest:
//
//     out = x * cos + turned(x) * sin, with turned(x) = (-x2, x1) for halves x = (x1, x2), or for neighbours.
//
// q is [batch, q_heads, length, width], k [batch, k_heads, length, width]; cos and sin are
// [batch or 1, length, rotated]. workgroups: batch * (q_heads + k_heads). `rotated` is a multiple of 2 * LANES
// for halves, of LANES for neighbours.

#include "simd.h"

typedef uint64_t Pairs __attribute__((vector_size(64)));

INLINE Floats neighbours_swapped(Floats v) { return (Floats)(((Pairs)v >> 32) | ((Pairs)v << 32)); }

#define DEFINE(NAME, T)                                                                             \
  INLINE void NAME##_row(const T *restrict x, const T *restrict cos, const T *restrict sin, T *restrict out, \
                         size_t rotated, size_t width, int neighbours) {                            \
    size_t half = rotated / 2, i = 0;                                                               \
    if (neighbours) {                                                                               \
      const Floats signs = {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};                \
      for (; i < rotated; i += LANES) {                                                             \
        Floats v = LOAD(x + i);                                                                     \
        STORE(out + i, v * LOAD(cos + i) + neighbours_swapped(v) * signs * LOAD(sin + i));          \
      }                                                                                             \
    } else {                                                                                        \
      for (; i < half; i += LANES) {                                                                \
        Floats a = LOAD(x + i), b = LOAD(x + half + i);                                             \
        STORE(out + i, a * LOAD(cos + i) - b * LOAD(sin + i));                                      \
        STORE(out + half + i, b * LOAD(cos + half + i) + a * LOAD(sin + half + i));                 \
      }                                                                                             \
    }                                                                                               \
    for (i = rotated; i < width; ++i) out[i] = x[i];                                                \
  }                                                                                                 \
  void NAME(const T *q, const T *k, const T *cos, const T *sin, T *out_q, T *out_k, int64_t q_heads, \
            int64_t k_heads, int64_t length, int64_t width, int64_t angle_batch, int64_t rotated,   \
            int64_t neighbours, size_t workgroup) {                                                 \
    size_t heads = q_heads + k_heads, batch = workgroup / heads, head = workgroup % heads;          \
    size_t first = head < (size_t)q_heads ? batch * q_heads + head : batch * k_heads + head - q_heads; \
    const T *x = (head < (size_t)q_heads ? q : k) + first * length * width;                         \
    T *out = (head < (size_t)q_heads ? out_q : out_k) + first * length * width;                     \
    size_t angles = angle_batch == 1 ? 0 : batch * length * rotated;                                \
    for (size_t t = 0; t < (size_t)length; ++t)                                                     \
      NAME##_row(x + t * width, cos + angles + t * rotated, sin + angles + t * rotated, out + t * width, \
                 rotated, width, neighbours);                                                       \
  }

DEFINE(rotary_f32, float)
DEFINE(rotary_bf16, bfloat16)
