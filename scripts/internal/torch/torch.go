// Package torch is what the programs have in common that compare with PyTorch; models.py are the models that both sides train.
package torch

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Environment is env without what would slow the libraries down, with as many threads for each of them, with the compiler's
// files in the build folder, and with the models of this folder to import. It is called in the module's root.
func Environment(env []string, threads int) ([]string, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	cache, models := filepath.Join(root, "build/torchinductor"), filepath.Join(root, "scripts/internal/torch")
	env = slices.DeleteFunc(env, func(s string) bool {
		return strings.HasPrefix(s, "OPENBLAS_CORETYPE=") || strings.HasPrefix(s, "OPENBLAS_L2_SIZE=")
	})
	for _, name := range []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"} {
		env = append(env, name+"="+strconv.Itoa(threads))
	}
	return append(env, "TORCHINDUCTOR_CACHE_DIR="+cache, "PYTHONPATH="+models, "PYTHONDONTWRITEBYTECODE=1"), nil
}
