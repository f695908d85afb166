package shoal

import (
	"shoal/internal/status"
)

// tellLive has Config.OnLive know this peer's membership.
func (m *member) tellLive() {
	m.live = newLive(Status{RunID: m.runID, Name: m.task.run.Name, Strategy: m.task.run.Mesh.Strategy, Peer: m.host.Self(),
		Steps: m.task.run.Train.Steps, Files: m.task.chunks != nil}, m.host.Counts, m.traffic, m.relaying)
	m.live.belongs(m)
	m.live.entered(m.node)
	if m.cfg.OnLive != nil {
		m.cfg.OnLive(m.live)
	}
}

// relaying is what this peer carries for others.
func (m *member) relaying() status.Relaying {
	r := m.host.Relaying()
	return status.Relaying{Circuits: r.Circuits, Peers: r.Peers, Bytes: r.Bytes, MostCircuits: r.MostCircuits, MostPeers: r.MostPeers}
}

// traffic is what has travelled to and from this peer, by class.
func (m *member) traffic() []status.Traffic {
	node := m.chunks.known.Load()
	if node == nil {
		return nil
	}
	var list []status.Traffic
	for _, c := range node.Stats().Classes {
		list = append(list, status.Traffic{Class: c.Class, Codec: c.Codec, Sent: c.Sent, Received: c.Received})
	}
	sent, received := m.chunkBytes()
	return append(list, status.Traffic{Class: "data", Sent: sent, Received: received})
}
