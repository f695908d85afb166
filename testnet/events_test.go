package testnet

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"shoal"
)

func TestEventsArriveAsTold(t *testing.T) {
	var pipe bytes.Buffer
	e := NewEvents(&pipe)
	e.Link("shoal:abc")
	e.Wait(1, 3)
	sent := shoal.Progress{Phase: shoal.Evaluating, Step: 7, Steps: 9, Loss: 0.5, Samples: 448, Elapsed: 3 * time.Second, Peers: 2}
	e.Progress(sent)
	broken := sent
	broken.Loss = math.Inf(1)
	e.Progress(broken)
	if err := e.Report(&shoal.Report{StateHash: "ff", Loss: []float64{1, math.NaN()}}); err != nil {
		t.Fatal(err)
	}

	var got []event
	if err := readEvents(&pipe, func(e event) { got = append(got, e) }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 5 {
		t.Fatalf("%d events arrived, want 5", len(got))
	}
	if got[0].Link != "shoal:abc" || *got[1].Wait != (waitEvent{1, 3}) {
		t.Errorf("link and wait arrived as %+v, %+v", got[0], got[1].Wait)
	}
	if p := got[2].Step.progress(); !reflect.DeepEqual(p, sent) {
		t.Errorf("progress arrived as %+v, want %+v", p, sent)
	}
	if p := got[3].Step.progress(); !math.IsNaN(p.Loss) {
		t.Errorf("a loss that is not finite arrived as %v", p.Loss)
	}
	if r := got[4].Report; r.StateHash != "ff" || len(r.Loss) != 2 || !math.IsNaN(r.Loss[1]) {
		t.Errorf("report arrived as %+v", r)
	}
}

func TestEventsThatAreNone(t *testing.T) {
	err := readEvents(strings.NewReader("{\"wait\":{}}\nhello\n"), func(event) {})
	if err == nil {
		t.Error("text that is no event was read without an error")
	}
}
