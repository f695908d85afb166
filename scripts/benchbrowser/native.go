package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"shoal/kernel"
	"shoal/kernel/cpu"
	"shoal/kernel/cpu/gemm"
	"shoal/scripts/benchbrowser/model"
	"shoal/scripts/internal/trainer"
)

// native computes the product, and takes training steps, on one core of this machine when the page asks for it.
type native struct {
	mu      sync.Mutex // for the device
	device  *cpu.Device
	a, b, c kernel.Buffer
	trainer *trainer.Trainer
}

func newNative() (*native, error) {
	const path = "avx2"
	if !slices.Contains(gemm.Paths(), path) {
		return nil, fmt.Errorf("this machine has no %s, with which the browser is compared", path)
	}
	d, err := cpu.New(cpu.Config{Threads: 1, Path: path})
	if err != nil {
		return nil, err
	}
	matrix := func(n int) kernel.Buffer {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i%17)/16 - 0.5
		}
		b := d.Alloc(kernel.Other, kernel.F32, n)
		d.Upload(b, kernel.Bytes(x))
		return b
	}
	own, err := cpu.New(cpu.Config{Threads: 1, Path: path})
	if err != nil {
		return nil, err
	}
	t, err := model.New(own)
	if err != nil {
		return nil, err
	}
	return &native{device: d, a: matrix(rows * inner), b: matrix(inner * cols), c: matrix(rows * cols), trainer: t}, nil
}

func (n *native) close() error { return errors.Join(n.trainer.Close(), n.device.Close()) }

// step tells how many milliseconds a training step takes, on average over about as many as it is asked for.
func (n *native) step(w http.ResponseWriter, r *http.Request) {
	var ask struct{ MS float64 }
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || !(ask.MS > 0 && ask.MS < 60_000) {
		http.Error(w, fmt.Sprintf("no turn: %+v, %v", ask, err), http.StatusBadRequest)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	seconds, err := n.trainer.Turn(time.Duration(ask.MS * float64(time.Millisecond)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"ms": 1000 * seconds})
}

// ServeHTTP tells the name, and how many milliseconds so many products take.
func (n *native) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Trans kernel.Trans
		Times int
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || ask.Trans > kernel.TN || ask.Times < 0 || ask.Times > 10_000 {
		http.Error(w, fmt.Sprintf("no product: %+v, %v", ask, err), http.StatusBadRequest)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	start := time.Now()
	for range ask.Times {
		n.device.MatMul(ask.Trans, n.c, n.a, n.b, rows, cols, inner, false)
	}
	took := time.Since(start)
	if err := n.device.Sync(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"name": "native, AVX2, one core", "ms": float64(took) / float64(time.Millisecond)})
}
