// Package status is what a peer knows of the run that it is in, for people and for programs. docs/status.md has every field.
package status

import "shoal/internal/report"

// Version is that of the JSON form. It changes when a field changes its meaning or goes.
const Version = 1

// Status is a run at one moment, as one of its peers sees it.
type Status struct {
	Version  int    `json:"version"`
	RunID    string `json:"run_id"`
	Name     string `json:"name"`     // of the run
	Strategy string `json:"strategy"` // mesh.strategy
	PID      int    `json:"pid"`
	Peer     string `json:"peer"` // this one's id

	Step             int           `json:"step"`  // that was committed last, counted from 1; 0 before the first
	Steps            int           `json:"steps"` // of the whole run
	Loss             report.Number `json:"loss"`  // of that step; null before the first, or if it was not finite
	Samples          int64         `json:"samples"`
	SamplesPerSecond float64       `json:"samples_per_second"` // over the last ten seconds; 0 if not known yet
	Retries          int           `json:"retries"`            // attempts of the run that were begun again with other exponents

	Generation uint64 `json:"generation"` // of the log: how often `shoal recover` was needed
	View       uint64 `json:"view"`       // its number
	Fence      uint64 `json:"fence"`      // the attempt that goes on
	Applied    uint64 `json:"applied"`    // entries of the log
	Leader     string `json:"leader"`     // peer id, empty while there is none

	Survives   int `json:"survives"`   // simultaneous deaths that cannot stop the run or lose anything
	Redundancy int `json:"redundancy"` // holders besides the owner that each shard has at least
	Wanted     int `json:"wanted"`     // holders besides the owner that it should have
	Voters     int `json:"voters"`     // daemons that keep the log; more than half of them must live

	Files   bool     `json:"files"`   // the run learns from files
	Members []Member `json:"members"` // of the view by rank, then those that are not in it
	Phase   string   `json:"phase"`   // what this peer is busy with
	Unit    int      `json:"unit"`    // the unit that the phase is about, -1 for none
	Waiting []string `json:"waiting"` // ids of the peers that this one waits for
	Stuck   string   `json:"stuck"`   // why the run can't go on; empty when it can
	Faults  []Fault  `json:"faults"`  // the last removals, oldest first

	Traffic     []Traffic `json:"traffic"`
	Streams     int       `json:"streams"` // open now
	Connections int       `json:"connections"`
	Relaying    Relaying  `json:"relaying"`
}

// Relaying is what this peer carries for others that can't reach one another: for browsers. All is 0 if it is one itself.
type Relaying struct {
	Circuits     int   `json:"circuits"`      // connections between two others that are open now
	Peers        int   `json:"peers"`         // that others may reach through this one
	Bytes        int64 `json:"bytes"`         // carried since this peer is there, both directions together
	MostCircuits int   `json:"most_circuits"` // to and from one peer
	MostPeers    int   `json:"most_peers"`
}

// Member is one peer of the run.
type Member struct {
	ID       uint64 `json:"id"` // in the log: a process that was started again has another one
	Peer     string `json:"peer"`
	Kind     string `json:"kind"` // "daemon" or "browser"
	Rank     int    `json:"rank"` // -1 if it is not in the view
	Voter    bool   `json:"voter"`
	Data     bool   `json:"data"`         // it has all files of the run's data
	Owned    int64  `json:"owned"`        // bytes of parameters and optimizer state that it owns
	BackedUp int64  `json:"backed_up"`    // and that it keeps for others
	ToFill   int    `json:"to_fill"`      // ranges that it is still to get
	Micros   int64  `json:"microseconds"` // that a microbatch takes it; 0 if not known, -1 if it gets none in this attempt
}

// Fault is a peer that was taken out of the run.
type Fault struct {
	Peer    string  `json:"peer"`
	Reason  string  `json:"reason"`
	Fence   uint64  `json:"fence"` // the attempt that began then
	Seconds float64 `json:"seconds_ago"`
}

// Traffic counts bytes of one kind since the peer joined.
type Traffic struct {
	Class    string `json:"class"` // parameters, gradients, forwards, state, control, data
	Codec    string `json:"codec"` // "raw", "packed", "narrowed", "narrowed-packed"; empty if they are not counted by codec
	Sent     int64  `json:"sent"`
	Received int64  `json:"received"`
}
