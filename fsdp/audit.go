package fsdp

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An audit compares what a range's holders have: each says a short hash of the parameters and AdamW's state, and the
// leader compares them. They differ only if a member computes wrongly, and then a wrong owner has fed everybody: the run
// ends, and goes on from the last checkpoint, which was audited.

const auditBytes = 8 // of a hash

// makeAudit covers what is held here and elsewhere for the next Ready: for each range its number and its hash.
func (e *Engine) makeAudit() error {
	defer e.did(e.doing(TraceHash, -1))
	e.audit = []byte{}
	for k := range e.layout.Ranges {
		if len(e.place.Backups[k]) == 0 || !e.place.holds(k, e.rank) {
			continue
		}
		sum, err := e.auditRange(k)
		if err != nil {
			return err
		}
		e.audit = append(binary.AppendUvarint(e.audit, uint64(k)), sum[:auditBytes]...)
	}
	return nil
}

func (e *Engine) auditRange(k int) (sum [sha256.Size]byte, err error) {
	r := e.layout.Ranges[k]
	u := e.units[r.Unit]
	h := u.own
	if e.place.Owner[k] != e.rank {
		h = u.backup
	}
	at, _ := h.find(r.Off)
	data := e.spare.take(stateBytes(r))
	defer e.spare.give(data)
	err = e.dev.Download(data[:4*r.N], h.p.Slice(at, r.N))
	if !r.Frozen {
		err = errors.Join(err, e.dev.Download(data[4*r.N:8*r.N], h.m.Slice(at, r.N)), e.dev.Download(data[8*r.N:], h.v.Slice(at, r.N)))
	}
	return sha256.Sum256(data), err
}

// audited compares what the members say of the state before a step.
func (d *Decider) audited(step int, members []ready) error {
	said := make([]map[[auditBytes]byte][]int, len(d.Layout.Ranges)) // by range, then hash: ranks
	for r := range members {
		for b := members[r].Audit; len(b) > 0; {
			k, n := binary.Uvarint(b)
			if n <= 0 || k >= uint64(len(said)) || len(b) < n+auditBytes {
				return fmt.Errorf("fsdp: rank %d's audit of step %d makes no sense", r, step)
			}
			if said[k] == nil {
				said[k] = map[[auditBytes]byte][]int{}
			}
			hash := [auditBytes]byte(b[n:])
			said[k][hash] = append(said[k][hash], r)
			b = b[n+auditBytes:]
		}
	}
	for k, hashes := range said {
		if len(hashes) > 1 {
			return fmt.Errorf("fsdp: before step %d the holders of %s differ: %s; go on from the last checkpoint", step, d.Layout.name(k), differ(hashes))
		}
	}
	return nil
}

// differ says in words who has what, and who is wrong if a majority shows it.
func differ(hashes map[[auditBytes]byte][]int) string {
	var groups [][]int
	all := 0
	for _, ranks := range hashes {
		groups = append(groups, ranks)
		all += len(ranks)
	}
	slices.SortFunc(groups, func(a, b []int) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return slices.Compare(a, b)
	})
	var parts, wrong []string
	for i, ranks := range groups {
		text := "rank " + strings.Trim(strings.ReplaceAll(fmt.Sprint(ranks), " ", " and "), "[]")
		if parts = append(parts, text); i > 0 {
			wrong = append(wrong, text)
		}
	}
	text := strings.Join(parts, " against ")
	if 2*len(groups[0]) > all {
		text += ", so " + strings.Join(wrong, " and ") + " computes wrongly"
	}
	return text
}
