package report

import (
	"fmt"
	"math"
	"strings"
)

// sample is a report like that of the default run on n peers.
func sample(n int) Report {
	r := Report{
		Version:           Version,
		Name:              "digits",
		RunID:             "3f9c1d2e4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0",
		Strategy:          "fsdp",
		Reduce:            "fixed32",
		ModelParameters:   605706,
		Steps:             450,
		LossUnit:          PerLabel,
		Eval:              &Eval{Accuracy: 0.9875, Loss: 0.0431},
		StateHash:         strings.Repeat("0123456789abcdef", 4),
		StepHashes:        map[string]string{"100": strings.Repeat("a1", 32), "20": strings.Repeat("b2", 32)},
		KernelFingerprint: strings.Repeat("c3", 32),
		WallSeconds:       87.4,
		SamplesPerSecond:  329.5,
		TimelineStep:      445,
	}
	for i := range r.Steps {
		wave := 0.12 * math.Sin(float64(i)*1.7) * math.Sin(float64(i*i))
		r.Loss = append(r.Loss, 2.3*math.Exp(-float64(i)/70)*(1+wave)+0.05*(1+math.Sin(float64(i)*12.9)))
	}
	var members []string
	for i := range n {
		id := fmt.Sprintf("12D3KooWQ7vYkpT3mZ5nL8RfG2hJcX4bVwNsAeD%dHuPq%dTz", i, i*i)
		members = append(members, id)
		part := int64(i + 1)
		r.Peers = append(r.Peers, Peer{
			Rank: i, PeerID: id, Kind: "daemon", Backend: "cpu/avx512",
			ParametersOwned: 151426 + 256*part, ParameterBytes: 908556, GradientBytes: 605704, OptimizerBytes: 1211408,
			GatheredPeakBytes: 434176 * part, GradientPeakBytes: 217088, ActivationPeakBytes: 14_400_000 * part,
			RSSPeakBytes: 88_000_000 + part<<20, BytesSent: 1_234_567_890 + part*7_000_000, BytesReceived: 1_230_000_000,
			PayloadRawBytes: 1_900_000_000, PayloadWireBytes: 1_220_000_000, Samples: 7200 - 100*part,
			StepsComputed: 450, FirstMS: 812.5, Steps: 449, TimeMS: Times{Compute: 40_000 - 2000*float64(i), Parameters: 9000, Reduce: 20_000 + 2000*float64(i), Commit: 4500, Update: 6750, Idle: 900},
			Timeline: []Span{{"update", 0, 0.4, 9.25}, {"gather", 1, 9.5, 14}, {"forward", 0, 9.75, 60}, {"commit", -1, 170, 180.5}},
		})
	}
	r.Views = []View{{Number: 1, Step: 0, Members: members, Reason: "start with " + fmt.Sprint(n) + " peers"}}
	r.Plan = &Plan{Rest: Compared{2_725_668, 2_725_668}, Received: Compared{2_700_000, 2_733_333}, Step: &Compared{0.182, 0.194}}
	r.Faults = []Fault{
		{Kind: "kill", Peer: 2, Phase: "backward", Step: 40, NextCommitMS: 212.5},
		{Kind: "join", Peer: 5, Step: 80, NextCommitMS: 1250, StepsLost: 1, SamplesLost: 64, SamplesDoubled: 3},
	}
	r.Soak = &Soak{Faults: 200, HashEqual: true, RSSSlope: 0.004, StreamsSlope: -0.001, SlowestCommitMS: 2910}
	return r
}
