package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"shoal/internal/median"
)

// result is what a part came to.
type result struct {
	Where      string // machine and program
	Theirs     string // versions; empty where peers are compared with peers
	Parameters int64
	Batch      int // samples of a step, of all processes together
	Steps      int // of a turn
	Sides      []*side
	Bare       int64 // bytes of a peer's process with a model of a few parameters
	BareBase   int64 // bytes of a process of theirs before it has a model
}

// side is one of those who train the same model. What is of a step is of an average one.
type side struct {
	Name      string
	Processes int
	Threads   int       // of each process
	Seconds   []float64 // of a step, by round
	CPU       []float64 // seconds of processor time of all processes in a step, by round
	Bytes     float64   // that a process sends in a step, with all overhead
	Packed    float64   // the same where everything is packed; 0 if it isn't measured
	Memory    int64     // the most bytes that a process ever had
}

// turn is what a side's turn came to.
type turn struct {
	seconds float64 // of a step
	cpu     float64 // of all processes in it
	bytes   float64 // that a process sent in it
	memory  int64   // the most that a process ever had
}

func (s *side) add(t turn) {
	s.Seconds, s.CPU = append(s.Seconds, t.seconds), append(s.CPU, t.cpu)
	s.Bytes, s.Memory = t.bytes, max(s.Memory, t.memory)
}

// faster is how many times as fast as other s is: the median over the rounds.
func (s *side) faster(other *side) float64 {
	ratios := make([]float64, min(len(s.Seconds), len(other.Seconds)))
	for i := range ratios {
		ratios[i] = other.Seconds[i] / s.Seconds[i]
	}
	return median.Of(ratios)
}

// load reads what was measured before; nothing if there is no file.
func load(file string) (map[string]*result, error) {
	results := map[string]*result{}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return results, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &results)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it to begin anew", file, err)
	}
	return results, nil
}

func save(file string, results map[string]*result) error {
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o666)
}
