// product.h: products of matrices in strips of C's tiles.
//
// A product is cut into blocks of KC steps and NC columns, those into blocks of MC rows, those into tiles of MR rows and
// NR columns. Rows of A and columns of B are copied into panels as wide as a tile, one step after the other, so that all
// ways to store the operands run at one speed: a panel of B stays in the first cache, a block of A in the second. Each
// element is one chain of fused multiply-adds over k ascending; from block to block it continues from C.

enum { MR = 4, NR = 8, KC = 256, MC = 128, NC = 512 };

// Floats of scratch that a product needs: panels of A and of B, and a tile at C's edge.
enum { PACK_A = MC * KC, PACK_B = NC * KC, PACK = PACK_A + PACK_B + MR * NR };

// Operand is a matrix whose element (r,p), p counting steps, is x[r*rs + p*ks]; one of rs and ks is 1.
typedef struct {
	const float *x;
	int rs, ks;
} Operand;

// tile continues the chains of rows by 4*vectors columns of c by k steps of the panels a and b.
INLINE void tile(const int rows, const int vectors, int k, const float *a, const float *b, float *c, int ldc, int more) {
	V acc[MR][2];
#pragma unroll
	for (int r = 0; r < rows; r++) {
#pragma unroll
		for (int v = 0; v < vectors; v++) acc[r][v] = more ? wasm_v128_load(c + r * ldc + 4 * v) : splat(0);
	}
#pragma clang loop unroll(disable) // or engines run out of registers
	for (int p = 0; p < k; p++) {
		V bv[2];
#pragma unroll
		for (int v = 0; v < vectors; v++) bv[v] = wasm_v128_load(b + 4 * v);
#pragma unroll
		for (int r = 0; r < rows; r++) {
			V x = wasm_v128_load32_splat(a + r);
#pragma unroll
			for (int v = 0; v < vectors; v++) acc[r][v] = fma4(x, bv[v], acc[r][v]);
		}
		a += MR;
		b += NR;
	}
#pragma unroll
	for (int r = 0; r < rows; r++) {
#pragma unroll
		for (int v = 0; v < vectors; v++) wasm_v128_store(c + r * ldc + 4 * v, acc[r][v]);
	}
}

static void whole_tile(int rows, int vectors, int k, const float *a, const float *b, float *c, int ldc, int more) {
	switch (2 * rows + vectors) {
	case 3: tile(1, 1, k, a, b, c, ldc, more); break;
	case 4: tile(1, 2, k, a, b, c, ldc, more); break;
	case 5: tile(2, 1, k, a, b, c, ldc, more); break;
	case 6: tile(2, 2, k, a, b, c, ldc, more); break;
	case 7: tile(3, 1, k, a, b, c, ldc, more); break;
	case 8: tile(3, 2, k, a, b, c, ldc, more); break;
	case 9: tile(4, 1, k, a, b, c, ldc, more); break;
	case 10: tile(4, 2, k, a, b, c, ldc, more); break;
	}
}

// edge_tile is whole_tile for cols that are no multiple of 4: by way of a copy, edge.
static void edge_tile(int rows, int cols, int k, const float *a, const float *b, float *c, int ldc, int more, float *edge) {
	for (int r = 0; r < rows && more; r++) {
		EACH_VECTOR(i, n, 0, cols, { store(edge + r * NR + i, load(c + r * ldc + i, n), 4); });
	}
	whole_tile(rows, (cols + 3) / 4, k, a, b, edge, NR, more);
	for (int r = 0; r < rows; r++) {
		EACH_VECTOR(i, n, 0, cols, { store(c + r * ldc + i, load(edge + r * NR + i, 4), n); });
	}
}

// transpose4 copies steps p..p+3 of four rows to dst, whose steps are width apart.
INLINE void transpose4(float *dst, const int width, const float *r0, const float *r1, const float *r2, const float *r3) {
	V a = wasm_v128_load(r0), b = wasm_v128_load(r1), c = wasm_v128_load(r2), d = wasm_v128_load(r3);
	V ab0 = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), ab1 = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
	V cd0 = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), cd1 = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
	wasm_v128_store(dst, wasm_i64x2_shuffle(ab0, cd0, 0, 2));
	wasm_v128_store(dst + width, wasm_i64x2_shuffle(ab0, cd0, 1, 3));
	wasm_v128_store(dst + 2 * width, wasm_i64x2_shuffle(ab1, cd1, 0, 2));
	wasm_v128_store(dst + 3 * width, wasm_i64x2_shuffle(ab1, cd1, 1, 3));
}

// pack copies k steps of rows of o to panels of width rows each. What the last one lacks becomes copies of a row or 0: the
// chains that it goes into are thrown away.
INLINE void pack(float *dst, Operand o, int rows, int k, const int width) {
	for (int at = 0; at < rows; at += width) {
		int have = rows - at < width ? rows - at : width;
		const float *src = o.x + at * o.rs;
		if (o.ks != 1) {
			for (int p = 0; p < k; p++, src += o.ks, dst += width) {
				if (have == width) {
					for (int r = 0; r < width; r += 4) wasm_v128_store(dst + r, wasm_v128_load(src + r));
				} else {
					for (int r = 0; r < width; r += 4) wasm_v128_store(dst + r, splat(0));
					EACH_VECTOR(r, n, 0, have, { store(dst + r, load(src + r, n), 4); });
				}
			}
			continue;
		}
		for (int r = 0; r < width; r += 4) {
			const float *row[4];
#pragma unroll
			for (int j = 0; j < 4; j++) row[j] = src + (r + j < have ? r + j : have - 1) * o.rs;
			float *d = dst + r;
			int p = 0;
			for (; p < k - 3; p += 4, d += 4 * width) transpose4(d, width, row[0] + p, row[1] + p, row[2] + p, row[3] + p);
			for (; p < k; p++, d += width) wasm_v128_store(d, wasm_f32x4_make(row[0][p], row[1][p], row[2][p], row[3][p]));
		}
		dst += k * width;
	}
}

// multiply is product with its operands as single words: as structs they would need a stack.
static void multiply(float *c, int ldc, const float *ax, int ars, int aks, const float *bx, int brs, int bks, int m, int n,
	int k, int more, float *scratch) {
	Operand a = {ax, ars, aks}, b = {bx, brs, bks};
	float *pa = scratch, *pb = pa + PACK_A, *edge = pb + PACK_B;
	if (k == 0 && !more) {
		for (int r = 0; r < m; r++) EACH_VECTOR(i, w, 0, n, { store(c + r * ldc + i, splat(0), w); });
	}
	for (int pc = 0; pc < k; pc += KC) {
		int kc = k - pc < KC ? k - pc : KC, old = more || pc > 0;
		for (int jc = 0; jc < n; jc += NC) {
			int nc = n - jc < NC ? n - jc : NC;
			pack(pb, (Operand){b.x + jc * b.rs + pc * b.ks, b.rs, b.ks}, nc, kc, NR);
			for (int ic = 0; ic < m; ic += MC) {
				int mc = m - ic < MC ? m - ic : MC;
				pack(pa, (Operand){a.x + ic * a.rs + pc * a.ks, a.rs, a.ks}, mc, kc, MR);
				for (int j = 0; j < nc; j += NR) {
					for (int i = 0; i < mc; i += MR) {
						int rows = mc - i < MR ? mc - i : MR, cols = nc - j < NR ? nc - j : NR;
						float *at = c + (ic + i) * ldc + jc + j;
						if (rows == MR && cols == NR) tile(MR, 2, kc, pa + i * kc, pb + j * kc, at, ldc, old);
						else if (cols % 4 == 0) whole_tile(rows, cols / 4, kc, pa + i * kc, pb + j * kc, at, ldc, old);
						else edge_tile(rows, cols, kc, pa + i * kc, pb + j * kc, at, ldc, old, edge);
					}
				}
			}
		}
	}
}

// product computes C (m,n) = A*B, or C += A*B if more; a holds the rows of A, b the columns of B. Rows of c are ldc apart.
INLINE void product(float *c, int ldc, Operand a, Operand b, int m, int n, int k, int more, float *scratch) {
	multiply(c, ldc, a.x, a.rs, a.ks, b.x, b.rs, b.ks, m, n, k, more, scratch);
}
