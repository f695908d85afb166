#!/bin/sh
# generate.sh compiles kern/ to the four modules and writes their and the sources' hashes to kernels.sum. generate.sh
# --check fails if the sources or the modules are not those of kernels.sum, or, where the compiler is there, if it makes
# other modules. Only this major version of it makes the same bytes.
set -eu
cd "$(dirname "$0")"
version=19
sources='generate.sh kern/kern.c kern/product.h kern/vec.h'
modules='kernels-relaxed.wasm kernels-relaxed-unshared.wasm kernels-simd.wasm kernels-simd-unshared.wasm'
sum() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }

if [ "${1:-}" = --check ]; then
	sum $sources $modules | cmp -s - kernels.sum || {
		echo "kernel/wasm: its sources or modules are not those of kernels.sum: run kernel/wasm/generate.sh" >&2
		exit 1
	}
fi
clang=clang-$version
if ! command -v $clang >/dev/null || ! command -v wasm-ld-$version >/dev/null; then
	echo "kernel/wasm: the modules are not made anew without clang and lld $version: apt-get install clang-$version lld-$version" >&2
	[ "${1:-}" = --check ] && exit 0 # the hashes are right
	exit 1
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# No frame: a stack would have to be in the memory that all instances share.
flags='--target=wasm32 -std=c11 -O3 -ffreestanding -fno-math-errno -ffp-contract=off -fno-strict-aliasing
	-msimd128 -mbulk-memory -matomics -Wall -Wextra -Wframe-larger-than=0 -Werror'
link='--no-entry --import-memory --strip-all -z stack-size=0 --global-base=0 --initial-memory=65536'
build() { # name, flags
	$clang $flags $2 -c -o "$tmp/$1.o" kern/kern.c
	wasm-ld-$version $link --shared-memory --max-memory=4294967296 -o "$tmp/kernels-$1.wasm" "$tmp/$1.o"
	wasm-ld-$version $link -o "$tmp/kernels-$1-unshared.wasm" "$tmp/$1.o"
}
build relaxed '-mrelaxed-simd -DRELAXED'
build simd ''
for m in $modules; do
	if [ "${1:-}" = --check ]; then
		cmp "$tmp/$m" $m || { echo "$m is not what the compiler makes: run kernel/wasm/generate.sh" >&2; exit 1; }
	else
		cat "$tmp/$m" >$m # not its mode: the linker makes programs
	fi
done
[ "${1:-}" = --check ] || sum $sources $modules >kernels.sum
