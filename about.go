package shoal

import (
	"fmt"

	"shoal/fsdp"
	"shoal/internal/report"
	"shoal/kernel"
	"shoal/peer"
	"shoal/swarm"
)

// mostLosses is how many points of the loss curve About has at most.
const mostLosses = 500

// About is a run for somebody who thinks about joining it; docs/browser.md explains its JSON.
type About struct {
	Run     AboutRun     `json:"run"`
	Joining AboutJoining `json:"joining"`
	Status  Status       `json:"status"`
	// Losses are step (from 1) and loss, evenly spread if the run has had more steps than 500; a loss that was not finite is null.
	Losses           [][2]report.Number `json:"losses"`
	SamplesPerSecond float64            `json:"samples_per_second"`
	PeersSeen        int                `json:"peers_seen"` // different ones in all views up to now
}

// AboutRun is what is trained.
type AboutRun struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Model      string `json:"model"` // in words
	Data       string `json:"data"`  // data.source of the run file
	Steps      int    `json:"steps"`
	Strategy   string `json:"strategy"`
	Parameters int64  `json:"parameters"`
	Precision  string `json:"precision"` // precision.params and precision.reduce of the run file, with a slash between
}

// AboutJoining is about what one more peer would have to hold and to receive, if it offers what the others do on average.
type AboutJoining struct {
	ParameterBytes int64 `json:"parameters_bytes"` // of parameters that it would own
	MemoryBytes    int64 `json:"memory_bytes"`     // that it would use at most, without activations
	DownloadBytes  int64 `json:"download_bytes"`   // to become the holder of its share
}

// About is the run as this peer sees it now.
func (l *Live) About() About {
	a := About{Status: l.Status()}
	l.mu.Lock()
	inside := l.inside
	l.mu.Unlock()
	a.SamplesPerSecond = a.Status.SamplesPerSecond
	a.Losses = [][2]report.Number{}
	if inside == nil {
		return a
	}
	past := inside.history.copy()
	every := len(past.Losses)/mostLosses + 1
	for i := (len(past.Losses) - 1) % every; i >= 0 && i < len(past.Losses); i += every { // the last one is there
		a.Losses = append(a.Losses, [2]report.Number{report.Number(i + 1), report.Number(past.Losses[i])})
	}
	seen := map[string]bool{}
	for _, v := range past.Views {
		for _, id := range v.Members {
			seen[id] = true
		}
	}
	a.PeersSeen = len(seen)
	a.Run, a.Joining = inside.task.about(inside.runID, a.Status.InView())
	return a
}

// about is the task for whoever would be one more than so many members.
func (t *task) about(runID string, members int) (AboutRun, AboutJoining) {
	r := t.run
	run := AboutRun{ID: runID, Name: r.Name, Model: modelInWords(r), Data: r.Data.Source, Steps: r.Train.Steps,
		Strategy: r.Mesh.Strategy, Precision: r.Precision.Params + "/" + r.Precision.Reduce}
	for _, u := range fsdp.NewLayout(t.model, t.frozen).Units {
		run.Parameters += int64(u.Len)
	}
	all := int64(members + 1)
	copies := int64(t.copies(members + 1))
	cfg := t.seen(&fsdp.View{Rank: members, Size: members + 1})
	_, peak := fsdp.Need(&cfg)
	return run, AboutJoining{ParameterBytes: 4 * run.Parameters / all, MemoryBytes: peak,
		DownloadBytes: bytesPerParameter * run.Parameters * (1 + copies) / all}
}

// modelInWords names a run's network.
func modelInWords(r RunFile) string {
	m := r.Model
	switch m.Type {
	case "gpt":
		return fmt.Sprintf("GPT, %d blocks of width %d, context %d", m.Depth, m.Dim, m.Context)
	case "vit":
		return fmt.Sprintf("vision transformer, %d blocks of width %d, images of %d x %d", m.Depth, m.Dim, m.Image, m.Image)
	}
	return "a program's own model"
}

// Backend is what this peer computes with, as in "cpu/avx2"; empty before it is in the run.
func (l *Live) Backend() string {
	if d := l.computesWith(); d != nil {
		return d.Name()
	}
	return ""
}

// Workers is how many compute workers a browser's peer has; 0 before it is in the run, and for a daemon.
func (l *Live) Workers() int {
	if d, ok := l.computesWith().(interface{ Workers() int }); ok {
		return d.Workers()
	}
	return 0
}

// Transports names how this peer is connected to others now, as in "ws" or "webtransport".
func (l *Live) Transports() []string {
	l.mu.Lock()
	inside := l.inside
	l.mu.Unlock()
	if inside == nil {
		return nil
	}
	return inside.host.Transports()
}

// Memory is how many bytes of what this peer offers are in use now.
func (l *Live) Memory() (used int64) {
	if d := l.computesWith(); d != nil {
		for c := range kernel.NumClasses {
			used += d.Meter().Live(c)
		}
	}
	return used
}

func (l *Live) computesWith() kernel.Device {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.device
}

// Links are the run's links by way of each other member that was there last and that can be dialled, for a peer that has lost
// the one by whose link it came.
func (l *Live) Links() (links []string) {
	l.mu.Lock()
	inside, members := l.inside, l.members
	l.mu.Unlock()
	if inside == nil || members == nil {
		return nil
	}
	for _, p := range members() {
		if p.Peer == inside.host.Self() || p.Offer.Kind == "browser" {
			continue
		}
		link := peer.Link{Peer: p.Peer, Addrs: p.Addrs, Run: inside.link.Run, Secret: inside.link.Secret}.String()
		if link != "" {
			links = append(links, link)
		}
	}
	return links
}

// membership is what a Live has of its peer.
type membership struct {
	inside  *member // nil where only what it shows is tried out
	device  kernel.Device
	members func() []swarm.Member
}

// belongs has l know the peer whose membership begins.
func (l *Live) belongs(m *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.membership = membership{m, m.device, m.node.Members}
}
