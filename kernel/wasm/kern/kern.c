// kern.c: the ops of kernel.Ops for WebAssembly, with the bits of kernel/ref.
//
// generate.sh makes four modules of it. Each imports env.memory and nothing else:
//
//	kernels-relaxed.wasm            fuses by relaxed SIMD; memory is shared
//	kernels-relaxed-unshared.wasm   the same for a memory that isn't
//	kernels-simd.wasm               needs plain SIMD only, and fuses by float64: the same bits, several times slower
//	kernels-simd-unshared.wasm
//
// Engines may run a relaxed fused multiply-add unfused. fuses() says whether this one fuses; if it returns 0, the
// simd module has to be taken.
//
// The caller's part:
//
//   - A memory of any size, with a maximum of at most 65536 pages if it is shared. The modules have no data, no stack and no
//     static variables in it: every address belongs to the caller, and many instances may share one memory.
//   - One instance per worker, and once per instance init(scratch, bytes): an area of the worker's own, aligned to 16
//     bytes. SCRATCH_MIN bytes (the exported function scratch_min() returns them) do for everything but attention over
//     very long sequences, which takes T up to (bytes - 641 KiB) / 8; a longer T traps.
//   - Ops are void op(const int32_t *args, int32_t part, int32_t parts), in snake case: mat_mul, add_rows, gelu_backward,
//     add_i32, adam_w, to_bf16 ... An op is done when each part of 0..parts-1 was run once, in any order, at the same time
//     or in turn, by any instances. Bits don't depend on parts. The next op may begin only then.
//   - args lies in the memory, aligned to 4 bytes: the parameters of kernel.Ops' method in order, each as 32-bit words.
//
//	Buffer          byte address (0 for none), number of elements
//	int, bool       one word (a shift beyond +-1000 must be clamped to that; it makes no difference)
//	Trans           one word: 0 NN, 1 NT, 2 TN
//	float32         its pattern
//	uint64          low word, high word
//	AttentionShape  B, T, H, D, Causal
//	AdamW           Scale, LR, Decay, Beta1, Beta2, Eps, C1, C2
//
//     Three methods take elements of more than one type, and one word more for it: Zero and Copy end in the size of an
//     element in bytes, 2 or 4; in AdamW the words of q are followed by 0 if it is I32, 1 if F32.
//   - Arguments are those that kernel.Checked has let through; nothing is checked here. All elements lie at multiples of
//     their size.
//   - LayerNormBackward is two ops: layer_norm_columns writes dgamma and dbeta, then layer_norm_backward writes dx, which
//     may be dy. Both have all arguments.

#include "vec.h"
#include "product.h"

#define EXPORT(name) __attribute__((export_name(#name)))
#define OP(name) EXPORT(name) void op_##name(const int32_t *arg, int32_t part, int32_t parts)

// Variables in address space 1 are the instance's own, outside its memory.
#define OWN static __attribute__((address_space(1)))

OWN int32_t own_scratch, own_bytes;

enum { SCRATCH_MIN = 1 << 20 };

EXPORT(init) void init(int32_t scratch, int32_t bytes) {
	own_scratch = scratch;
	own_bytes = bytes;
}

EXPORT(scratch_min) int32_t scratch_min(void) { return SCRATCH_MIN; }

INLINE float *scratch(void) { return (float *)own_scratch; }

// fuses says whether fma4 rounds once here.
EXPORT(fuses) int32_t fuses(void) {
	int32_t one = 1;
	__asm__("" : "+r"(one)); // known only at run time
	V a = splat((float)one + 0x1p-12f), c = splat(-((float)one + 0x1p-11f));
	return wasm_i32x4_all_true(wasm_f32x4_eq(fma4(a, a, c), splat(0x1p-24f)));
}

INLINE const float *in(const int32_t *arg, int i) { return (const float *)arg[i]; }
INLINE float *out(const int32_t *arg, int i) { return (float *)arg[i]; }
INLINE float scalar(const int32_t *arg, int i) { return float_of((uint32_t)arg[i]); }

typedef struct {
	int lo, hi;
} Range;

// share is this part's share of n things, cut at multiples of grain.
INLINE Range share(int n, int grain, int part, int parts) {
	int64_t pieces = ((int64_t)n + grain - 1) / grain;
	int64_t lo = pieces * part / parts * grain, hi = pieces * (part + 1) / parts * grain;
	return (Range){(int)(lo < n ? lo : n), (int)(hi < n ? hi : n)};
}

enum { LINE = 16 }; // elements of a cache line

// ELEMENTS runs its last argument for this part's vectors of len elements.
#define ELEMENTS(i, n, len, ...)                                \
	do {                                                        \
		Range range_ = share((len), LINE, part, parts);         \
		EACH_VECTOR(i, n, range_.lo, range_.hi, __VA_ARGS__);   \
	} while (0)

// ---- products

enum { NN, NT, TN };

OP(mat_mul) {
	int t = arg[0], m = arg[7], n = arg[8], k = arg[9], more = arg[10];
	Operand a = {in(arg, 3), t == TN ? 1 : k, t == TN ? m : 1};
	Operand b = {in(arg, 5), t == NT ? k : 1, t == NT ? 1 : n};
	float *c = out(arg, 1);
	if (m >= n) {
		Range r = share(m, MR, part, parts);
		product(c + r.lo * n, n, (Operand){a.x + r.lo * a.rs, a.rs, a.ks}, b, r.hi - r.lo, n, k, more, scratch());
	} else {
		Range r = share(n, NR, part, parts);
		product(c + r.lo, n, a, (Operand){b.x + r.lo * b.rs, b.rs, b.ks}, m, r.hi - r.lo, k, more, scratch());
	}
}

// ---- elements

OP(add) {
	float *y = out(arg, 0);
	const float *a = in(arg, 2), *b = in(arg, 4);
	ELEMENTS(i, n, arg[1], { store(y + i, add(load(a + i, n), load(b + i, n)), n); });
}

OP(zero) {
	Range r = share(arg[1], 64, part, parts);
	uint32_t size = (uint32_t)arg[2];
	__builtin_memset((char *)arg[0] + r.lo * size, 0, (r.hi - r.lo) * size);
}

OP(copy) {
	Range r = share(arg[1], 64, part, parts);
	uint32_t size = (uint32_t)arg[4], at = r.lo * size;
	__builtin_memcpy((char *)arg[0] + at, (const char *)arg[2] + at, (r.hi - r.lo) * size);
}

// gelu_exponent is exp(-2u).
INLINE V gelu_exponent(V x, V square) {
	return exp4(wasm_f32x4_neg(mul(x, add(mul(splat(GELU_B), square), splat(GELU_A)))));
}

OP(gelu) {
	float *y = out(arg, 0);
	const float *x = in(arg, 2);
	ELEMENTS(i, n, arg[1], {
		V v = load(x + i, n);
		store(y + i, quo(v, add(splat(1), gelu_exponent(v, mul(v, v)))), n);
	});
}

OP(gelu_backward) {
	float *dx = out(arg, 0);
	const float *x = in(arg, 2), *dy = in(arg, 4);
	ELEMENTS(i, n, arg[1], {
		V v = greatest(least(load(x + i, n), splat(GELU_X)), splat(-GELU_X));
		V square = mul(v, v), e = gelu_exponent(v, square);
		V s = quo(splat(1), add(splat(1), e));
		V slope = add(mul(splat(GELU_C), square), splat(GELU_A));
		V d = add(splat(1), mul(mul(v, mul(e, s)), slope));
		store(dx + i, mul(load(dy + i, n), mul(s, d)), n);
	});
}

OP(relu) {
	float *y = out(arg, 0);
	const float *x = in(arg, 2);
	ELEMENTS(i, n, arg[1], {
		V v = load(x + i, n);
		store(y + i, wasm_v128_andnot(v, wasm_f32x4_le(v, splat(0))), n);
	});
}

OP(relu_backward) {
	float *dx = out(arg, 0);
	const float *x = in(arg, 2), *dy = in(arg, 4);
	ELEMENTS(i, n, arg[1], {
		store(dx + i, wasm_v128_and(load(dy + i, n), wasm_f32x4_gt(load(x + i, n), splat(0))), n);
	});
}

// ---- rows

INLINE void add_row(float *y, const float *a, const float *b, int cols) {
	EACH_VECTOR(i, n, 0, cols, { store(y + i, add(load(a + i, n), load(b + i, n)), n); });
}

INLINE void copy_row(float *y, const float *x, int cols) {
	EACH_VECTOR(i, n, 0, cols, { store(y + i, load(x + i, n), n); });
}

INLINE void clear_row(float *y, int cols) {
	EACH_VECTOR(i, n, 0, cols, { store(y + i, splat(0), n); });
}

OP(add_rows) {
	int cols = arg[7], period = arg[8];
	Range r = share(arg[6], 1, part, parts);
	for (int i = r.lo; i < r.hi; i++) {
		int at = i * cols;
		add_row(out(arg, 0) + at, in(arg, 2) + at, in(arg, 4) + i % period * cols, cols);
	}
}

// sum_columns: t[c] = x[c] + x[c+stride] + ..., count terms from 0, for c < n.
static void sum_columns(float *t, const float *x, int stride, int count, int n) {
	int c = 0;
	for (; c < n - 15; c += 16) {
		V a0 = splat(0), a1 = a0, a2 = a0, a3 = a0;
		const float *p = x + c;
		for (int i = 0; i < count; i++, p += stride) {
			a0 = add(a0, load(p, 4));
			a1 = add(a1, load(p + 4, 4));
			a2 = add(a2, load(p + 8, 4));
			a3 = add(a3, load(p + 12, 4));
		}
		store(t + c, a0, 4);
		store(t + c + 4, a1, 4);
		store(t + c + 8, a2, 4);
		store(t + c + 12, a3, 4);
	}
	EACH_VECTOR(j, w, c, n, {
		V a = splat(0);
		for (int i = 0; i < count; i++) a = add(a, load(x + j + i * stride, w));
		store(t + j, a, w);
	});
}

// sum_rows takes dy as rows of period*cols elements, of which the last one may be shorter.
OP(sum_rows) {
	int rows = arg[4], cols = arg[5], period = arg[6], width = period * cols;
	float *t = out(arg, 0);
	const float *dy = in(arg, 2);
	int whole = rows / period, rest = rows % period * cols;
	Range r = share(width, LINE, part, parts);
	int cut = r.lo > rest ? r.lo : r.hi < rest ? r.hi : rest;
	sum_columns(t + r.lo, dy + r.lo, width, whole + 1, cut - r.lo);
	sum_columns(t + cut, dy + cut, width, whole, r.hi - cut);
}

OP(mean_rows) {
	int n = arg[5], cols = arg[6];
	V by = splat((float)n);
	Range r = share(arg[4], 1, part, parts);
	for (int g = r.lo; g < r.hi; g++) {
		float *y = out(arg, 0) + g * cols;
		sum_columns(y, in(arg, 2) + g * n * cols, cols, n, cols);
		EACH_VECTOR(i, w, 0, cols, { store(y + i, quo(load(y + i, w), by), w); });
	}
}

OP(mean_rows_backward) {
	int n = arg[5], cols = arg[6];
	V by = splat((float)n);
	Range r = share(arg[4], 1, part, parts);
	for (int g = r.lo; g < r.hi; g++) {
		const float *dy = in(arg, 2) + g * cols;
		float *dx = out(arg, 0) + g * n * cols;
		EACH_VECTOR(i, w, 0, cols, {
			V v = quo(load(dy + i, w), by);
			for (int j = 0; j < n; j++) store(dx + j * cols + i, v, w);
		});
	}
}

OP(embedding) {
	const int32_t *ids = (const int32_t *)arg[4];
	int cols = arg[7];
	Range r = share(arg[6], 1, part, parts);
	for (int i = r.lo; i < r.hi; i++) {
		float *y = out(arg, 0) + i * cols;
		if (ids[i] >= 0 && (int64_t)ids[i] * cols < arg[3]) copy_row(y, in(arg, 2) + ids[i] * cols, cols);
		else clear_row(y, cols);
	}
}

OP(embedding_backward) {
	const int32_t *ids = (const int32_t *)arg[4];
	int rows = arg[6], cols = arg[7], vocab = cols > 0 ? arg[1] / cols : 0;
	Range r = share(cols, LINE, part, parts);
	float *t = out(arg, 0) + r.lo;
	const float *dy = in(arg, 2) + r.lo;
	int n = r.hi - r.lo;
	for (int v = 0; v < vocab; v++) clear_row(t + v * cols, n);
	for (int i = 0; i < rows; i++) {
		if (ids[i] < 0 || ids[i] >= vocab) continue;
		float *to = t + ids[i] * cols;
		add_row(to, to, dy + i * cols, n);
	}
}

// ---- reductions of a row

INLINE float sum_row(const float *x, int cols) {
	Lanes l = lanes_of(0);
	EACH_LANES(i, j, n, cols, { l.v[j] = add(l.v[j], load(x + i, n)); });
	return fold_add(l);
}

// exp_row: e = exp(x - max), whose sum it returns; e may be x, or 0 if only the sum is wanted.
static float exp_row(float *e, const float *x, float max, int cols) {
	enum { PIECE = 256 }; // goes through twice while it is in the first cache
	Lanes sum = lanes_of(0);
	for (int at = 0; at < cols; at += PIECE) {
		int count = cols - at < PIECE ? cols - at : PIECE;
		const float *from = x + at;
		float *to = e ? e + at : scratch();
		EACH_VECTOR(i, n, 0, count, { store(to + i, exp4(sub(load(from + i, n), splat(max))), n); });
		EACH_LANES(i, j, n, count, { sum.v[j] = add(sum.v[j], load(to + i, n)); });
	}
	return fold_add(sum);
}

// ---- norm

INLINE float root(float x) { return __builtin_sqrtf(x); }

OP(layer_norm) {
	const float *gamma = in(arg, 8), *beta = in(arg, 10);
	int cols = arg[13];
	float count = (float)cols;
	Range range = share(arg[12], 1, part, parts);
	for (int r = range.lo; r < range.hi; r++) {
		const float *x = in(arg, 6) + r * cols;
		float *y = out(arg, 0) + r * cols;
		float mean = sum_row(x, cols) / count;
		V mu = splat(mean);
		Lanes l = lanes_of(0);
		EACH_LANES(i, j, n, cols, {
			V d = sub(load(x + i, n), mu);
			l.v[j] = add(l.v[j], keep(mul(d, d), n, 0));
		});
		float rstd = 1 / root(fold_add(l) / count + 1e-5f);
		V rs = splat(rstd);
		EACH_VECTOR(i, n, 0, cols, {
			store(y + i, add(mul(mul(sub(load(x + i, n), mu), rs), load(gamma + i, n)), load(beta + i, n)), n);
		});
		out(arg, 2)[r] = mean;
		out(arg, 4)[r] = rstd;
	}
}

OP(layer_norm_columns) {
	const float *mean = in(arg, 10), *rstd = in(arg, 12);
	int rows = arg[16], cols = arg[17];
	ELEMENTS(c, n, cols, {
		V dgamma = splat(0);
		V dbeta = splat(0);
		const float *dy = in(arg, 6) + c;
		const float *x = in(arg, 8) + c;
		for (int r = 0; r < rows; r++, dy += cols, x += cols) {
			V d = load(dy, n);
			dgamma = add(dgamma, mul(d, mul(sub(load(x, n), splat(mean[r])), splat(rstd[r]))));
			dbeta = add(dbeta, d);
		}
		store(out(arg, 2) + c, dgamma, n);
		store(out(arg, 4) + c, dbeta, n);
	});
}

OP(layer_norm_backward) {
	const float *gamma = in(arg, 14);
	int cols = arg[17];
	float count = (float)cols;
	Range range = share(arg[16], 1, part, parts);
	for (int r = range.lo; r < range.hi; r++) {
		float *dx = out(arg, 0) + r * cols;
		const float *dy = in(arg, 6) + r * cols, *x = in(arg, 8) + r * cols;
		V mu = splat(in(arg, 10)[r]), rs = splat(in(arg, 12)[r]);
		Lanes lg = lanes_of(0), lgx = lanes_of(0);
		EACH_LANES(i, j, n, cols, {
			V g = mul(load(dy + i, n), load(gamma + i, n));
			V gx = mul(g, mul(sub(load(x + i, n), mu), rs));
			lg.v[j] = add(lg.v[j], keep(g, n, 0));
			lgx.v[j] = add(lgx.v[j], keep(gx, n, 0));
		});
		V mg = splat(fold_add(lg) / count), mgx = splat(fold_add(lgx) / count);
		EACH_VECTOR(i, n, 0, cols, {
			V xhat = mul(sub(load(x + i, n), mu), rs);
			V g = mul(load(dy + i, n), load(gamma + i, n));
			store(dx + i, mul(rs, sub(sub(g, mg), mul(xhat, mgx))), n);
		});
	}
}

// ---- attention

// Rows go through in groups of GROUP, whose chains over positions end together: see kernel/ref. A group makes three to
// seven products; if the scratch can't hold its scores, it goes through in smaller pieces.
enum { GROUP = 64 };

typedef struct {
	int t, heads, d, causal;
	int c, ld;   // heads*d, and the distance between rows of qkv
	int room;    // floats of scratch beyond PACK
	float scale;
	float *work; // the scratch beyond PACK
} Attention;

INLINE Attention attention_of(const int32_t *shape) {
	Attention a = {.t = shape[1], .heads = shape[2], .d = shape[3], .causal = shape[4]};
	a.c = a.heads * a.d;
	a.ld = 3 * a.c;
	a.room = own_bytes / 4 - PACK;
	a.scale = 1 / root((float)a.d);
	a.work = scratch() + PACK;
	return a;
}

// group_keys is over how many positions the chains of the group at row t0 run.
INLINE int group_keys(const Attention *a, int t0) { return a->causal && t0 + GROUP < a->t ? t0 + GROUP : a->t; }

// piece is how many rows of a group of `rows` go through at once, each with `floats` in the scratch.
INLINE int piece(const Attention *a, int rows, int floats) {
	int fit = a->room / floats;
	if (fit < 1) __builtin_trap();
	return fit < rows ? fit : rows;
}

INLINE int seen(const Attention *a, int t) { return a->causal ? t + 1 : a->t; }

OP(attention) {
	Attention a = attention_of(arg + 6);
	Range range = share(arg[6] * a.heads, 1, part, parts);
	for (int i = range.lo; i < range.hi; i++) {
		int b = i / a.heads, h = i % a.heads;
		const float *q = in(arg, 4) + b * a.t * a.ld + h * a.d, *k = q + a.c, *v = k + a.c;
		float *y = out(arg, 0) + b * a.t * a.c + h * a.d, *stats = out(arg, 2) + i * a.t * 2, *e = a.work;
		for (int t0 = 0; t0 < a.t; t0 += GROUP) {
			int keys = group_keys(&a, t0), end = t0 + GROUP < a.t ? t0 + GROUP : a.t;
			int step = piece(&a, end - t0, keys);
			for (int t = t0; t < end; t += step) {
				int rows = end - t < step ? end - t : step;
				product(e, keys, (Operand){q + t * a.ld, a.ld, 1}, (Operand){k, a.ld, 1}, rows, keys, a.d, 0, scratch());
				for (int r = 0; r < rows; r++) {
					float *row = e + r * keys;
					int cols = seen(&a, t + r);
					V scale = splat(a.scale);
					Lanes most = lanes_of(-INFINITE);
					EACH_LANES(at, j, n, cols, {
						V s = mul(load(row + at, n), scale);
						store(row + at, s, n);
						most.v[j] = greatest(most.v[j], keep(s, n, -INFINITE));
					});
					float m = fold_max(most);
					stats[2 * (t + r)] = m;
					stats[2 * (t + r) + 1] = exp_row(row, row, m, cols);
					clear_row(row + cols, keys - cols);
				}
				product(y + t * a.c, a.c, (Operand){e, keys, 1}, (Operand){v, 1, a.ld}, rows, a.d, keys, 0, scratch());
				for (int r = t; r < t + rows; r++) {
					float *row = y + r * a.c;
					V inverse = splat(1 / stats[2 * r + 1]);
					EACH_VECTOR(at, n, 0, a.d, { store(row + at, mul(load(row + at, n), inverse), n); });
				}
			}
		}
	}
}

// columns continues the chains of d (keys, D) over rows of m (rows, keys) and x (rows, D): d += m^T x. Positions from
// `old` on start from 0.
INLINE void columns(const Attention *a, float *d, const float *m, const float *x, int ldx, int rows, int keys, int old) {
	Operand b = {x, 1, ldx};
	if (old > 0) product(d, a->ld, (Operand){m, 1, keys}, b, old, a->d, rows, 1, scratch());
	if (old < keys) product(d + old * a->ld, a->ld, (Operand){m + old, 1, keys}, b, keys - old, a->d, rows, 0, scratch());
}

OP(attention_backward) {
	Attention a = attention_of(arg + 10);
	Range range = share(arg[10] * a.heads, 1, part, parts);
	for (int i = range.lo; i < range.hi; i++) {
		int b = i / a.heads, h = i % a.heads;
		int at_y = b * a.t * a.c + h * a.d, at_qkv = b * a.t * a.ld + h * a.d;
		const float *q = in(arg, 6) + at_qkv, *k = q + a.c, *v = k + a.c;
		const float *dy = in(arg, 2) + at_y, *y = in(arg, 4) + at_y, *stats = in(arg, 8) + i * a.t * 2;
		float *dq = out(arg, 0) + at_qkv, *dk = dq + a.c, *dv = dk + a.c;
		int old = 0; // so many positions have begun their chains over rows
		for (int t0 = 0; t0 < a.t; t0 += GROUP) {
			int keys = group_keys(&a, t0), end = t0 + GROUP < a.t ? t0 + GROUP : a.t;
			int step = piece(&a, end - t0, 2 * keys);
			float *p = a.work, *ds = p + step * keys;
			for (int t = t0; t < end; t += step) {
				int rows = end - t < step ? end - t : step;
				Operand qr = {q + t * a.ld, a.ld, 1}, dyr = {dy + t * a.c, a.c, 1};
				product(p, keys, qr, (Operand){k, a.ld, 1}, rows, keys, a.d, 0, scratch());
				product(ds, keys, dyr, (Operand){v, a.ld, 1}, rows, keys, a.d, 0, scratch());
				for (int r = 0; r < rows; r++) {
					int row = t + r, cols = seen(&a, row);
					const float *dyt = dy + row * a.c, *yt = y + row * a.c;
					float *pr = p + r * keys, *dsr = ds + r * keys;
					Lanes l = lanes_of(0);
					EACH_LANES(at, j, n, a.d, {
						l.v[j] = add(l.v[j], keep(mul(load(dyt + at, n), load(yt + at, n)), n, 0));
					});
					V delta = splat(fold_add(l)), max = splat(stats[2 * row]);
					V inverse = splat(1 / stats[2 * row + 1]), scale = splat(a.scale);
					EACH_VECTOR(at, n, 0, cols, {
						V x = mul(exp4(sub(mul(load(pr + at, n), scale), max)), inverse);
						store(pr + at, x, n);
						store(dsr + at, mul(mul(x, sub(load(dsr + at, n), delta)), scale), n);
					});
					clear_row(pr + cols, keys - cols);
					clear_row(dsr + cols, keys - cols);
				}
				product(dq + t * a.ld, a.ld, (Operand){ds, keys, 1}, (Operand){k, 1, a.ld}, rows, a.d, keys, 0, scratch());
				columns(&a, dk, ds, q + t * a.ld, a.ld, rows, keys, old);
				columns(&a, dv, p, dy + t * a.c, a.c, rows, keys, old);
				old = keys;
			}
		}
	}
}

// ---- losses

OP(cross_entropy) {
	const int32_t *labels = (const int32_t *)arg[6];
	int cols = arg[9];
	Range range = share(arg[8], 1, part, parts);
	for (int r = range.lo; r < range.hi; r++) {
		const float *x = in(arg, 4) + r * cols;
		float *d = arg[2] ? out(arg, 2) + r * cols : 0; // maybe x
		int label = labels[r], known = label >= 0 && label < cols;
		float own = known ? x[label] : 0;
		Lanes most = lanes_of(-INFINITE);
		EACH_LANES(i, j, n, cols, { most.v[j] = greatest(most.v[j], keep(load(x + i, n), n, -INFINITE)); });
		float m = fold_max(most);
		float l = exp_row(d, x, m, cols);
		out(arg, 0)[r] = known ? logarithm(l) - (own - m) : label < 0 ? 0 : __builtin_nanf("");
		if (!d) continue;
		if (label < 0) {
			clear_row(d, cols);
			continue;
		}
		V inverse = splat(known ? 1 / l : __builtin_nanf(""));
		EACH_VECTOR(i, n, 0, cols, { store(d + i, mul(load(d + i, n), inverse), n); });
		if (known) d[label] -= 1;
	}
}

OP(argmax) {
	int cols = arg[5];
	Range range = share(arg[4], 1, part, parts);
	for (int r = range.lo; r < range.hi; r++) {
		const float *x = in(arg, 2) + r * cols;
		float best = -INFINITE;
		int at = 0;
		for (int c = 0; c < cols; c++) {
			if (x[c] > best) {
				best = x[c];
				at = c;
			}
		}
		((int32_t *)arg[0])[r] = at;
	}
}

// ---- reductions to one value: all in part 0

OP(sum) {
	(void)parts;
	if (part == 0) *out(arg, 0) = sum_row(in(arg, 2), arg[3]);
}

OP(max_abs) {
	(void)parts;
	if (part != 0) return;
	const float *x = in(arg, 2);
	V top = splat(0), magnitude = wasm_i32x4_splat(0x7fffffff); // patterns are ordered like magnitudes, NaN above Inf
	EACH_VECTOR(i, n, 0, arg[3], { top = wasm_u32x4_max(top, wasm_v128_and(load(x + i, n), magnitude)); });
	top = wasm_u32x4_max(top, wasm_i64x2_shuffle(top, top, 1, 1));
	top = wasm_u32x4_max(top, wasm_i32x4_shuffle(top, top, 1, 1, 1, 1));
	top = wasm_u32x4_min(top, wasm_i32x4_splat(0x7f800000));
	wasm_v128_store32_lane(out(arg, 0), top, 0);
}

OP(sum_squares) {
	(void)parts;
	if (part != 0) return;
	const int32_t *x = (const int32_t *)arg[2];
	uint64_t low = 0, high = 0; // of 2^0 and 2^32: too few terms to overflow
	for (int i = 0; i < arg[3]; i++) {
		uint64_t square = (uint64_t)((int64_t)x[i] * x[i]);
		low += square & 0xffffffff;
		high += square >> 32;
	}
	high += low >> 32;
	uint32_t *dst = (uint32_t *)arg[0];
	dst[0] = (uint32_t)low;
	dst[1] = (uint32_t)high;
	dst[2] = (uint32_t)(high >> 32);
	dst[3] = 0;
}

// ---- updates

// Shift is a power of two as two factors.
typedef struct {
	V a, b;
} Shift;

INLINE Shift shift_of(int shift) {
	shift = shift < -252 ? -252 : shift > 254 ? 254 : shift;
	return (Shift){power2(wasm_i32x4_splat(shift / 2)), power2(wasm_i32x4_splat(shift - shift / 2))};
}

// shifted is g * 2^shift, clamped to +-2^30; NaN stays.
INLINE V shifted(V g, Shift s) {
	return greatest(least(mul(mul(g, s.a), s.b), splat(0x1p30f)), splat(-0x1p30f));
}

OP(quantize) {
	int32_t *acc = (int32_t *)arg[0];
	const float *g = in(arg, 2);
	Shift s = shift_of(arg[4]);
	ELEMENTS(i, n, arg[1], {
		V q = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(shifted(load(g + i, n), s))); // 0 of NaN
		store(acc + i, wasm_i32x4_add(load(acc + i, n), q), n);
	});
}

// random_bits are ref.RandomBits for element i under key.
INLINE int random_bits(uint64_t key, int i) {
	uint64_t z = key + ((uint64_t)i + 1) * 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (int)((z ^ z >> 31) >> 40);
}

OP(quantize_stochastic) {
	int32_t *acc = (int32_t *)arg[0];
	const float *g = in(arg, 2);
	Shift s = shift_of(arg[4]);
	uint64_t key = (uint32_t)arg[5] | (uint64_t)(uint32_t)arg[6] << 32;
	ELEMENTS(i, n, arg[1], {
		V v = shifted(load(g + i, n), s);
		V low = wasm_f32x4_floor(v);
		V q = wasm_i32x4_trunc_sat_f32x4(low); // 0 of NaN
		V bits = wasm_i32x4_make(random_bits(key, i), random_bits(key, i + 1), random_bits(key, i + 2), random_bits(key, i + 3));
		V up = wasm_f32x4_gt(mul(sub(v, low), splat(0x1p24f)), wasm_f32x4_convert_i32x4(bits)); // -1, or 0
		store(acc + i, wasm_i32x4_add(load(acc + i, n), wasm_i32x4_sub(q, up)), n);
	});
}

OP(add_i32) {
	int32_t *acc = (int32_t *)arg[0];
	const int32_t *x = (const int32_t *)arg[2];
	ELEMENTS(i, n, arg[1], { store(acc + i, wasm_i32x4_add(load(acc + i, n), load(x + i, n)), n); });
}

OP(adam_w) {
	float *p = out(arg, 0), *m = out(arg, 2), *v = out(arg, 4);
	const float *q = in(arg, 6);
	int floats = arg[8];
	V scale = splat(scalar(arg, 9)), lr = splat(scalar(arg, 10)), decay = splat(scalar(arg, 11));
	V b1 = splat(scalar(arg, 12)), a1 = splat(1 - scalar(arg, 12));
	V b2 = splat(scalar(arg, 13)), a2 = splat(1 - scalar(arg, 13));
	V eps = splat(scalar(arg, 14)), c1 = splat(scalar(arg, 15)), c2 = splat(scalar(arg, 16));
	ELEMENTS(i, n, arg[1], {
		V g = load(q + i, n);
		g = mul(floats ? g : wasm_f32x4_convert_i32x4(g), scale);
		V mi = add(mul(b1, load(m + i, n)), mul(a1, g));
		V vi = add(mul(b2, load(v + i, n)), mul(a2, mul(g, g)));
		store(m + i, mi, n);
		store(v + i, vi, n);
		V x = load(p + i, n);
		x = sub(x, mul(decay, x));
		store(p + i, sub(x, quo(mul(lr, mul(mi, c1)), add(wasm_f32x4_sqrt(mul(vi, c2)), eps))), n);
	});
}

// ---- bfloat16

INLINE uint16_t half_of(float x) {
	uint32_t u = bits_of(x);
	return x != x ? 0x7fc0 : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

OP(to_bf16) {
	uint16_t *dst = (uint16_t *)arg[0];
	const float *src = in(arg, 2);
	Range r = share(arg[1], LINE, part, parts);
	int i = r.lo;
	for (; i < r.hi - 3; i += 4) {
		V x = load(src + i, 4);
		V last = wasm_v128_and(wasm_u32x4_shr(x, 16), wasm_i32x4_splat(1));
		V u = wasm_u32x4_shr(wasm_i32x4_add(wasm_i32x4_add(x, wasm_i32x4_splat(0x7fff)), last), 16);
		u = wasm_v128_bitselect(u, wasm_i32x4_splat(0x7fc0), wasm_f32x4_eq(x, x));
		wasm_v128_store64_lane(dst + i, wasm_u16x8_narrow_i32x4(u, u), 0);
	}
	for (; i < r.hi; i++) dst[i] = half_of(src[i]);
}

OP(from_bf16) {
	float *dst = out(arg, 0);
	const uint16_t *src = (const uint16_t *)arg[2];
	Range r = share(arg[1], LINE, part, parts);
	int i = r.lo;
	for (; i < r.hi - 3; i += 4) store(dst + i, wasm_i32x4_shl(wasm_u32x4_load16x4(src + i), 16), 4);
	for (; i < r.hi; i++) dst[i] = float_of((uint32_t)src[i] << 16);
}
