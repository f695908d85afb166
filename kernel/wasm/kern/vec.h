// vec.h: vectors of four floats, the fused multiply-add in both builds, and the elementary functions of kernel/ref.

#include <stdint.h>
#include <wasm_simd128.h>

#define INLINE static inline __attribute__((always_inline))

typedef v128_t V; // four float32, unless a name says otherwise

INLINE V splat(float x) { return wasm_f32x4_splat(x); }
INLINE V add(V a, V b) { return wasm_f32x4_add(a, b); }
INLINE V sub(V a, V b) { return wasm_f32x4_sub(a, b); }
INLINE V mul(V a, V b) { return wasm_f32x4_mul(a, b); }
INLINE V quo(V a, V b) { return wasm_f32x4_div(a, b); }

// least and greatest keep a unless b is less (greater): a NaN in a stays, one in b is passed over.
INLINE V least(V a, V b) { return wasm_f32x4_pmin(a, b); }
INLINE V greatest(V a, V b) { return wasm_f32x4_pmax(a, b); }

// load and store move n elements, 1 to 4 (or more, which is 4). load sets the rest to +0.
INLINE V load(const void *at, int n) {
	const float *p = at;
	if (n >= 4) return wasm_v128_load(p);
	if (n == 1) return wasm_v128_load32_zero(p);
	V v = wasm_v128_load64_zero(p);
	return n == 2 ? v : wasm_v128_load32_lane(p + 2, v, 2);
}

INLINE void store(void *at, V v, int n) {
	float *p = at;
	if (n >= 4) {
		wasm_v128_store(p, v);
		return;
	}
	if (n == 1) {
		wasm_v128_store32_lane(p, v, 0);
		return;
	}
	wasm_v128_store64_lane(p, v, 0);
	if (n == 3) wasm_v128_store32_lane(p + 2, v, 2);
}

// EACH_VECTOR runs its last argument for i = lo, lo+4, ... below hi, with n elements left: 4 as a constant, and at the end
// maybe fewer.
#define EACH_VECTOR(i, n, lo, hi, ...)                 \
	do {                                               \
		int i = (lo), end_ = (hi);                     \
		for (; i < end_ - 3; i += 4) {                 \
			enum { n = 4 };                            \
			__VA_ARGS__                                \
		}                                              \
		if (i < end_) {                                \
			const int n = end_ - i;                    \
			__VA_ARGS__                                \
		}                                              \
	} while (0)

// fma4 is a*b + c rounded once.
#ifdef RELAXED

INLINE V fma4(V a, V b, V c) { return wasm_f32x4_relaxed_madd(a, b, c); }

#else

// The product of two float32 is exact in float64, so only the sum is rounded twice: to float64, then to float32. These
// take two elements as float64.
INLINE V low2(V v) { return wasm_f64x2_promote_low_f32x4(v); }
INLINE V high2(V v) { return wasm_f64x2_promote_low_f32x4(wasm_i64x2_shuffle(v, v, 1, 1)); }

INLINE V join(V low, V high) {
	return wasm_i64x2_shuffle(wasm_f32x4_demote_f64x2_zero(low), wasm_f32x4_demote_f64x2_zero(high), 0, 2);
}

// odd is p + c rounded to odd: an inexact sum takes the neighbour whose last bit is 1. With 53 >= 24 + 2 bits, rounding it
// once more to float32 is then right (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums").
INLINE V odd(V p, V c) {
	V s = wasm_f64x2_add(p, c);
	V bp = wasm_f64x2_sub(s, c);
	V bc = wasm_f64x2_sub(s, bp);
	V e = wasm_f64x2_add(wasm_f64x2_sub(p, bp), wasm_f64x2_sub(c, bc)); // p + c = s + e exactly; NaN if s isn't finite
	V inexact = wasm_f64x2_gt(wasm_f64x2_abs(e), wasm_f64x2_splat(0));
	V beyond = wasm_v128_and(wasm_i64x2_shr(wasm_v128_xor(e, s), 63), inexact); // -1 where |s| is too great
	return wasm_v128_or(wasm_i64x2_add(s, beyond), wasm_v128_and(inexact, wasm_i64x2_splat(1)));
}

static __attribute__((noinline)) V fma4_odd(V pl, V ph, V c) { return join(odd(pl, low2(c)), odd(ph, high2(c))); }

// doubtful says whether rounding one of the sums s to float32 may be wrong: where it lies halfway between two float32 (its low
// 29 bits are 1 0...0), or float32 has fewer bits because it is subnormal there. No sum here has an upper half of 0 but 0.
INLINE int doubtful(V sl, V sh) {
	V lower = wasm_i32x4_shuffle(sl, sh, 0, 2, 4, 6), upper = wasm_i32x4_shuffle(sl, sh, 1, 3, 5, 7);
	V halfway = wasm_i32x4_eq(wasm_v128_and(lower, wasm_i32x4_splat(0x1fffffff)), wasm_i32x4_splat(0x10000000));
	V size = wasm_i32x4_sub(wasm_i32x4_add(upper, upper), wasm_i32x4_splat(1));
	V subnormal = wasm_u32x4_lt(size, wasm_i32x4_splat(2 * 0x38100000 - 1)); // the upper half of 2^-126; 0 wraps around
	return wasm_v128_any_true(wasm_v128_or(halfway, subnormal));
}

INLINE V fma4(V a, V b, V c) {
	V pl = wasm_f64x2_mul(low2(a), low2(b)), ph = wasm_f64x2_mul(high2(a), high2(b));
	V sl = wasm_f64x2_add(pl, low2(c)), sh = wasm_f64x2_add(ph, high2(c));
	if (__builtin_expect(doubtful(sl, sh), 0)) return fma4_odd(pl, ph, c);
	return join(sl, sh);
}

#endif

// The constants of kernel/ref.
#define EXP_MAX 89.0f
#define EXP_MIN -104.0f
#define ROUND_BIT 12582912.0f
#define LOG2E 1.44269504f
#define LN2_HI 0.693359375f
#define LN2_LO -2.12194440e-4f
#define GELU_A 1.5957691216057308f
#define GELU_B ((float)(0.044715 * 1.5957691216057308))
#define GELU_C ((float)(3 * 0.044715 * 1.5957691216057308))
#define GELU_X 10.0f

INLINE V power2(V k) { return wasm_i32x4_shl(wasm_i32x4_add(k, wasm_i32x4_splat(127)), 23); }

// exp4 is ref.Exp.
INLINE V exp4(V x) {
	x = greatest(least(x, splat(EXP_MAX)), splat(EXP_MIN));
	V t = add(mul(x, splat(LOG2E)), splat(ROUND_BIT));
	V n = sub(t, splat(ROUND_BIT));
	V r = sub(sub(x, mul(n, splat(LN2_HI))), mul(n, splat(LN2_LO)));
	V q = add(mul(splat(0x1.6a2124p-10f), r), splat(0x1.123b9ap-7f));
	q = add(mul(q, r), splat(0x1.5558fcp-5f));
	q = add(mul(q, r), splat(0x1.55549p-3f));
	q = add(mul(q, r), splat(0x1.fffffcp-2f));
	V y = add(add(mul(q, mul(r, r)), r), splat(1));
	V k = wasm_i32x4_sub(t, wasm_i32x4_splat(0x4b400000)); // the pattern of ROUND_BIT
	V half = wasm_i32x4_shr(k, 1);
	return mul(mul(y, power2(half)), power2(wasm_i32x4_sub(k, half)));
}

#define INFINITE __builtin_inff()

INLINE float float_of(uint32_t bits) {
	union { uint32_t u; float f; } x = {bits};
	return x.f;
}

INLINE uint32_t bits_of(float f) {
	union { float f; uint32_t u; } x = {f};
	return x.u;
}

// logarithm is ref.Log.
static float logarithm(float x) {
	if (!(x >= 0)) return __builtin_nanf("");
	if (x == 0) return -INFINITE;
	if (x == INFINITE) return x;
	int k = 0;
	if (x < 0x1p-126f) {
		x *= 0x1p23f;
		k = -23;
	}
	uint32_t u = bits_of(x) + (0x3f800000 - 0x3f3504f3);
	k += (int)(u >> 23) - 127;
	float m = float_of((u & 0x7fffff) + 0x3f3504f3);
	float f = m - 1;
	float s = f / (2 + f);
	float z = s * s;
	float q = z * (float)(2.0 / 9) + (float)(2.0 / 7);
	q = q * z + (float)(2.0 / 5);
	q = q * z + (float)(2.0 / 3);
	q = q * z;
	float n = (float)k;
	return ((f - s * (f - q)) + n * LN2_LO) + n * LN2_HI;
}

// Lanes are the partial results of a reduction along a row: vector j holds lanes 4j to 4j+3 of 16.
typedef struct {
	V v[4];
} Lanes;

INLINE Lanes lanes_of(float x) {
	V v = splat(x);
	return (Lanes){{v, v, v, v}};
}

// fold_add and fold_max combine the lanes by the tree 16 -> 8 -> 4 -> 2 -> 1.
INLINE float fold_add(Lanes l) {
	V v = add(add(l.v[0], l.v[2]), add(l.v[1], l.v[3]));
	v = add(v, wasm_i64x2_shuffle(v, v, 1, 1));
	return wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1);
}

INLINE float fold_max(Lanes l) {
	V v = greatest(greatest(l.v[0], l.v[2]), greatest(l.v[1], l.v[3]));
	v = greatest(v, wasm_i64x2_shuffle(v, v, 1, 1));
	return wasm_f32x4_extract_lane(greatest(v, wasm_i32x4_shuffle(v, v, 1, 1, 1, 1)), 0);
}

// EACH_LANES runs its last argument for a row of cols elements: i goes by vectors of n elements, of lanes j; a row that
// is no multiple of 16 ends in fewer lanes.
#define EACH_LANES(i, j, n, cols, ...)                                             \
	do {                                                                           \
		int i = 0, end_ = (cols);                                                  \
		for (; i < end_ - 15; i += 4) {                                            \
			enum { n = 4 };                                                        \
			{ enum { j = 0 }; __VA_ARGS__ } i += 4;                                \
			{ enum { j = 1 }; __VA_ARGS__ } i += 4;                                \
			{ enum { j = 2 }; __VA_ARGS__ } i += 4;                                \
			{ enum { j = 3 }; __VA_ARGS__ }                                        \
		}                                                                          \
		if (i < end_) { enum { j = 0 }; const int n = end_ - i; __VA_ARGS__ } i += 4; \
		if (i < end_) { enum { j = 1 }; const int n = end_ - i; __VA_ARGS__ } i += 4; \
		if (i < end_) { enum { j = 2 }; const int n = end_ - i; __VA_ARGS__ } i += 4; \
		if (i < end_) { enum { j = 3 }; const int n = end_ - i; __VA_ARGS__ }      \
	} while (0)

// keep sets all but the first n elements of v to fill. The lanes of a sum start from +0 and so never hold -0: adding +0
// changes none.
INLINE V keep(V v, int n, float fill) {
	if (n < 4) v = wasm_f32x4_replace_lane(v, 3, fill);
	if (n < 3) v = wasm_f32x4_replace_lane(v, 2, fill);
	return n < 2 ? wasm_f32x4_replace_lane(v, 1, fill) : v;
}
