package report

// Fault is something that testnet did to a peer on purpose, and what came of it. What was lost or doubled is counted from
// this fault to the next one.
type Fault struct {
	Kind           string `json:"kind"`           // kill, stop, leave or join
	Peer           int    `json:"peer"`           // the process's number, from 1
	Role           string `json:"role"`           // the role it was chosen by; empty if by number
	Phase          string `json:"phase"`          // of the step, at which it was hit; empty for a join
	Step           int    `json:"step"`           // that was computed, from 1
	NextCommitMS   Number `json:"next_commit_ms"` // until the survivors committed a step without it; NaN if they never did
	StepsLost      int    `json:"steps_lost"`
	SamplesLost    int64  `json:"samples_lost"`
	SamplesDoubled int64  `json:"samples_doubled"`
}

// Soak is a long run with many faults. Slopes are those of the second half, per 100 faults, as shares of the mean.
type Soak struct {
	Faults          int    `json:"faults"`
	HashEqual       bool   `json:"hash_equal"` // to that of a run without faults, on one peer
	RSSSlope        Number `json:"rss_slope"`
	StreamsSlope    Number `json:"streams_slope"`
	GoroutinesSlope Number `json:"goroutines_slope"`
	SlowestCommitMS Number `json:"slowest_commit_ms"` // the longest time from a fault to the next commit
}
