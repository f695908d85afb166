package main

import (
	"shoal"
	"shoal/internal/report"
)

// command is what the page, or whoever else has started this program, wants.
type command struct {
	// Type is join, settings, pause, resume, leave or visible; child and input are testnet's.
	Type string `json:"type"`

	Link    string `json:"link"`
	Cores   int    `json:"cores"`   // to compute with; 0: all
	Memory  int64  `json:"memory"`  // to offer, in bytes; 0: what the browser says, at most 2 GiB
	Visible bool   `json:"visible"` // whether somebody looks: pieces are for eyes

	Points []string `json:"points"` // where a child waits, see testnet.NewChild
	Slow   float64  `json:"slow"`   // as of shoal.Config
	Text   string   `json:"text"`   // of an input: lines for the child; empty at its end
}

// states are what a volunteer can be in.
const (
	connecting   = "connecting"
	waiting      = "waiting"
	computing    = "computing"
	paused       = "paused"
	leaving      = "leaving"
	left         = "left"
	refused      = "refused"
	reconnecting = "reconnecting"
	done         = "done"
	failed       = "failed"
)

// The messages to the page. Each has its type's name in Type.
type (
	stateMessage struct {
		Type   string `json:"type"` // "state", or "ready" once
		State  string `json:"state,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
	selfMessage struct {
		Type      string `json:"type"`
		Peer      string `json:"peer"`
		Backend   string `json:"backend"`
		Workers   int    `json:"workers"`
		Shared    bool   `json:"shared"` // whether they share memory
		Transport string `json:"transport"`
	}
	progressMessage struct {
		Type      string        `json:"type"`
		Step      int           `json:"step"`
		Steps     int           `json:"steps"`
		Loss      report.Number `json:"loss"`
		Samples   int64         `json:"samples"`
		ElapsedMS int64         `json:"elapsedMs"`
		Peers     int           `json:"peers"`
	}
	statusMessage struct {
		Type   string       `json:"type"`
		Status shoal.Status `json:"status"`
	}
	piecesMessage struct {
		Type string   `json:"type"`
		List [][2]any `json:"list"` // kind of event, unit
	}
	usageMessage struct {
		Type    string  `json:"type"`
		Memory  int64   `json:"memory"`  // bytes in use
		Cores   float64 `json:"cores"`   // that computed, on average since the last one
		Program int64   `json:"program"` // bytes of the program itself, Go's memory
		Samples int64   `json:"samples"` // of committed steps that were computed here, since "self"
	}
	textMessage struct {
		Type string `json:"type"` // "notice"; "output" and "log" of a child
		Text string `json:"text"`
	}
	reportMessage struct {
		Type   string        `json:"type"`
		Report *shoal.Report `json:"report"`
	}
)
