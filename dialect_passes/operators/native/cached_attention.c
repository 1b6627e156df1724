// Causal attention over a key/value cache, in float32 inside, with the softmax computed block by block.
//
// q, out: [batch, kv_heads * group, length, width]; k, v: [batch, kv_heads, capacity, width]. Query i of a batch
// entry stands at position[entry] + i and sees the keys up to there: keys behind are not even read.
// workgroups: (ceil(group * length / 64), batch * kv_heads): all query heads of one key head together, so
// that each key and value is read once. width is a multiple of 64, at most 256.

#include "simd.h"

#define ROWS 64
#define KEYS 64
#define WIDTH 256
// Rows from which turning a block of keys around pays.
#define MANY 8

typedef struct {
  float q[ROWS * WIDTH];  // queries, times scale
  float out[ROWS * WIDTH];
  float keys[WIDTH * KEYS];  // a block of keys, turned around: [width, KEYS]
  float scores[ROWS * KEYS];
  float most[ROWS], total[ROWS];
  int64_t seen[ROWS];  // how many keys a row sees
} Tile;

// c[R, 64] = (c +) a[R, n] * b[n, 64]: all of c stays in registers.
#define MULTIPLY_ROWS(NAME, T, R)                                                                          \
  INLINE void NAME##_##R(const float *a, size_t a_row, const T *b, size_t b_row, float *c, size_t c_row,   \
                         size_t n, int add) {                                                              \
    Floats sums[R][4];                                                                                     \
    for (int i = 0; i < R; ++i)                                                                            \
      for (int j = 0; j < 4; ++j) sums[i][j] = add ? LOAD(c + i * c_row + j * LANES) : (Floats){};         \
    for (size_t k = 0; k < n; ++k) {                                                                       \
      const T *row = b + k * b_row;                                                                        \
      Floats b0 = LOAD(row), b1 = LOAD(row + LANES), b2 = LOAD(row + 2 * LANES), b3 = LOAD(row + 3 * LANES); \
      for (int i = 0; i < R; ++i) {                                                                        \
        float factor = a[i * a_row + k];                                                                   \
        sums[i][0] += factor * b0;                                                                         \
        sums[i][1] += factor * b1;                                                                         \
        sums[i][2] += factor * b2;                                                                         \
        sums[i][3] += factor * b3;                                                                         \
      }                                                                                                    \
    }                                                                                                      \
    for (int i = 0; i < R; ++i)                                                                            \
      for (int j = 0; j < 4; ++j) STORE(c + i * c_row + j * LANES, sums[i][j]);                            \
  }

#define MULTIPLY(NAME, T)                                                                                  \
  MULTIPLY_ROWS(NAME, T, 1)                                                                                \
  MULTIPLY_ROWS(NAME, T, 4)                                                                                \
  MULTIPLY_ROWS(NAME, T, 6)                                                                                \
  static void NAME(const float *a, size_t a_row, const T *b, size_t b_row, float *c, size_t c_row,         \
                   size_t rows, size_t n, int add) {                                                       \
    size_t i = 0;                                                                                          \
    for (; i + 6 <= rows; i += 6) NAME##_6(a + i * a_row, a_row, b, b_row, c + i * c_row, c_row, n, add);  \
    for (; i + 4 <= rows; i += 4) NAME##_4(a + i * a_row, a_row, b, b_row, c + i * c_row, c_row, n, add);  \
    for (; i < rows; ++i) NAME##_1(a + i * a_row, a_row, b, b_row, c + i * c_row, c_row, n, add);          \
  }

MULTIPLY(multiply_f32, float)
MULTIPLY(multiply_bf16, bfloat16)

// One row of scores becomes weights relative to the largest score so far; what was summed before is rescaled.
INLINE void weigh(Tile *tile, size_t row, size_t width, int64_t visible) {
  float *scores = tile->scores + row * KEYS, before = tile->most[row];
  for (size_t t = visible < 0 ? 0 : visible; t < KEYS; ++t) scores[t] = -__builtin_inff();
  Floats highest = all(before);
  for (int t = 0; t < KEYS; t += LANES) highest = maximum(LOAD(scores + t), highest);
  float most = largest(highest);
  Floats sums = {};
  for (int t = 0; t < KEYS; t += LANES) {
    Floats weights = exponential_of_negative(LOAD(scores + t) - most);
    STORE(scores + t, weights);
    sums += weights;
  }
  // The first block has nothing before it: 0 * NaN and exp(-inf - most) are out of the way.
  float rescale = before == -__builtin_inff() ? 0.0f : exponential_of_negative(all(before - most))[0];
  tile->most[row] = most;
  tile->total[row] = tile->total[row] * rescale + sum(sums);
  if (rescale != 1.0f)
    for (size_t c = 0; c < width; c += LANES)
      STORE(tile->out + row * width + c, LOAD(tile->out + row * width + c) * rescale);
}

#define DEFINE(NAME, MULTIPLY_VALUES, T)                                                                   \
  /* scores[rows, KEYS] = q * keys^T for `count` keys */                                                   \
  INLINE void NAME##_scores(Tile *tile, const T *k, size_t rows, size_t count, size_t width) {             \
    if (rows < MANY) {                                                                                     \
      for (size_t t = 0; t < count; ++t)                                                                   \
        for (size_t i = 0; i < rows; ++i) {                                                                \
          Floats sums = {};                                                                                \
          for (size_t c = 0; c < width; c += LANES) sums += LOAD(k + t * width + c) * LOAD(tile->q + i * width + c); \
          tile->scores[i * KEYS + t] = sum(sums);                                                          \
        }                                                                                                  \
      return;                                                                                              \
    }                                                                                                      \
    for (size_t c = 0; c < width; ++c)                                                                     \
      for (size_t t = 0; t < KEYS; ++t) tile->keys[c * KEYS + t] = t < count ? LOAD_ONE(k + t * width + c) : 0.0f; \
    multiply_f32(tile->q, width, tile->keys, KEYS, tile->scores, KEYS, rows, width, 0);                    \
  }                                                                                                        \
                                                                                                           \
  void NAME(const T *q, const T *k, const T *v, const int64_t *position, T *out, int64_t kv_heads,         \
            int64_t group, int64_t length, int64_t capacity, int64_t width, int64_t positions, float scale, \
            size_t workgroup, size_t head) {                                                               \
    Tile tile;                                                                                             \
    size_t first = workgroup * ROWS, end = (size_t)(group * length);                                       \
    size_t rows = end - first < ROWS ? end - first : ROWS;                                                 \
    q += (head * end + first) * width, out += (head * end + first) * width;                                \
    k += head * capacity * width, v += head * capacity * width;                                            \
    int64_t start = position[positions == 1 ? 0 : head / kv_heads], last = 0;                              \
    for (size_t i = 0; i < rows; ++i) {                                                                    \
      int64_t seen = start + (int64_t)((first + i) % length) + 1;                                          \
      tile.seen[i] = seen < capacity ? seen : capacity;                                                    \
      last = tile.seen[i] > last ? tile.seen[i] : last;                                                    \
      tile.most[i] = -__builtin_inff(), tile.total[i] = 0.0f;                                              \
      for (size_t c = 0; c < (size_t)width; c += LANES) {                                                  \
        STORE(tile.q + i * width + c, LOAD(q + i * width + c) * scale);                                    \
        STORE(tile.out + i * width + c, (Floats){});                                                       \
      }                                                                                                    \
    }                                                                                                      \
    for (int64_t block = 0; block < last; block += KEYS) {                                                 \
      size_t count = last - block < KEYS ? last - block : KEYS;                                            \
      NAME##_scores(&tile, k + block * width, rows, count, width);                                         \
      for (size_t i = 0; i < rows; ++i) weigh(&tile, i, width, tile.seen[i] - block);                      \
      for (size_t c = 0; c < (size_t)width; c += 4 * LANES)                                                \
        MULTIPLY_VALUES(tile.scores, KEYS, v + block * width + c, width, tile.out + c, width, rows, count, 1); \
    }                                                                                                      \
    for (size_t i = 0; i < rows; ++i)                                                                      \
      for (size_t c = 0; c < (size_t)width; c += LANES)                                                    \
        STORE(out + i * width + c, LOAD(tile.out + i * width + c) / tile.total[i]);                        \
  }

DEFINE(cached_attention_f32, multiply_f32, float)
DEFINE(cached_attention_bf16, multiply_bf16, bfloat16)
