package member

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"shoal/internal/place"
	"shoal/swarm/wire"
)

// Member is one process that takes part in the run. A process that is started again is another member.
type Member struct {
	ID    uint64     `cbor:"1,keyasint"` // its Raft id, random, never 0
	Peer  string     `cbor:"2,keyasint"` // its peer id
	Addrs []string   `cbor:"3,keyasint,omitempty"`
	Offer wire.Offer `cbor:"4,keyasint"`
}

// Short is the end of the peer id, enough for a person to tell peers apart.
func (m Member) Short() string { return Short(m.Peer) }

// Short is a peer id as people see it: its end, since all begin alike.
func Short(peer string) string {
	const tail = 8
	if len(peer) <= tail {
		return peer
	}
	return "…" + peer[len(peer)-tail:]
}

// host is where m was last known to be, for people: an address that isn't the machine's own, or "".
func (m Member) host() string {
	for _, a := range m.Addrs {
		part := strings.Split(a, "/") // "/ip4/192.0.2.7/tcp/4001"
		if len(part) > 2 && slices.Contains([]string{"ip4", "ip6", "dns", "dns4", "dns6"}, part[1]) &&
			!strings.HasPrefix(part[2], "127.") && part[2] != "::1" {
			return part[2]
		}
	}
	return ""
}

// ValidID says whether Raft has no meaning of its own for id.
func ValidID(id uint64) bool { return id != 0 && id < 1<<64-16 }

// check is for what came from the network.
func (m Member) check() error {
	switch {
	case !ValidID(m.ID):
		return fmt.Errorf("member id %#x is reserved", m.ID)
	case m.Peer == "" || len(m.Peer) > wire.MaxText:
		return fmt.Errorf("peer id of %d bytes", len(m.Peer))
	case len(m.Addrs) > wire.MaxAddrs:
		return fmt.Errorf("%d addresses, at most %d", len(m.Addrs), wire.MaxAddrs)
	}
	return nil
}

// EntryKind says how an attempt ended.
type EntryKind uint8

const (
	EntryCommit  EntryKind = iota + 1 // the step is final: update
	EntryRetry                        // the same step again
	EntryDone                         // the run is over
	EntryStop                         // in a Decision only: end the run with an error; Payload is the reason, as text
	EntryView                         // the same step again in another view: somebody is lost; or the first view
	EntryLate                         // the same step again: whoever is late does not compute in it
	EntryRestore                      // the run goes back to a checkpoint, in another view: Entry.Run says to which
)

// Entry is what ended an attempt, or began the first one. Nothing in it may be changed.
type Entry struct {
	Fence   uint64 // names the attempt that begins
	Kind    EntryKind
	Payload []byte       // of the last Commit, Retry or Done, from Decide; nil before the first, and before the first after a Restore
	Work    []int64      // for the attempt that begins, by rank: microseconds of a microbatch, 0 unknown, -1 none in this attempt
	Fills   []place.Fill // for the attempt that begins
	View    *View        // the view that begins, if this entry begins one

	Run      []byte // the run's description
	Restored uint64 // log index of the last Restore; 0: there was none. Whoever has missed that one learns of it by this
}

// Decision is what the leader makes of everybody's Ready.
type Decision struct {
	Kind    EntryKind // EntryCommit, EntryRetry, EntryDone or EntryStop
	Payload []byte    // at most wire.MaxPayload
	Work    []int64   // for the next attempt, as in Entry, by rank of the current view; nil: as it was
	Saved   *Saved    // of a Commit or Retry: a checkpoint that is whole by it
}

// View is a numbered, ordered list of members with what each one holds; their place in it is their rank.
type View struct {
	Number  uint64
	Fence   uint64 // of the view's first attempt
	Members []Member
	Rank    int // one's own; -1 when one is not in it
	Reason  string
	Place   place.Map
}

// Fault is a member's removal because it was lost or late.
type Fault struct {
	Peer   string `cbor:"1,keyasint"`
	Reason string `cbor:"2,keyasint,omitempty"`
	Index  uint64 `cbor:"3,keyasint"` // of the entry that removed it
	Ago    uint64 `cbor:"-"`          // ticks since this member has applied that
}

// recordKind is the kind of an entry of the log. Append-only.
type recordKind uint8

const (
	recordAdmit  recordKind = 1 // Member becomes a learner
	recordLeave  recordKind = 2 // ID, which is in no view, is no member any more
	recordView   recordKind = 3 // a view part; follows a fence
	recordCommit recordKind = 4 // Body, perhaps a view part; follows a fence
	recordRetry  recordKind = 5 // Body; follows a fence
	recordDone   recordKind = 6 // Body; follows a fence
	recordStop   recordKind = 7 // Reason, and ID when it is about a member; Follows may be 0: whatever the fence
	recordLate   recordKind = 8 // follows a fence

	recordRestore recordKind = 9 // Saved's Name, Lost, and a view part; follows a fence
)

// record is an entry of the log. All that follow a fence say what the attempt that begins does (Work, Fills).
type record struct {
	Kind    recordKind `cbor:"1,keyasint"`
	Follows uint64     `cbor:"2,keyasint,omitempty"` // the fence that must be current, or the entry does nothing
	Member  *Member    `cbor:"3,keyasint,omitempty"`
	ID      uint64     `cbor:"4,keyasint,omitempty"`
	Body    []byte     `cbor:"7,keyasint,omitempty"`
	Reason  string     `cbor:"8,keyasint,omitempty"`

	// The view part. Number 0: the view stays; Want may be there even so.
	Number uint64   `cbor:"5,keyasint,omitempty"`
	IDs    []uint64 `cbor:"6,keyasint,omitempty"` // in rank order
	Have   []byte   `cbor:"9,keyasint,omitempty"` // the placement, see encodeMap
	Want   []byte   `cbor:"10,keyasint,omitempty"`

	Work  []int64 `cbor:"11,keyasint,omitempty"` // by rank
	Fills []int64 `cbor:"12,keyasint,omitempty"` // range, rank, range, rank, ...

	Saved *Saved   `cbor:"13,keyasint,omitempty"` // that a Commit or Retry has made whole
	Name  string   `cbor:"14,keyasint,omitempty"` // of the checkpoint that a Restore goes back to
	Lost  []uint64 `cbor:"15,keyasint,omitempty"` // whom a Restore takes out; others of the view before stay members
}

func (r *record) encode() []byte {
	b, err := wire.Marshal(r)
	if err != nil {
		panic(err) // plain fields only: can't happen
	}
	return b
}

func decodeRecord(b []byte) (*record, error) {
	r := &record{}
	if err := wire.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("log entry: %w", err)
	}
	switch {
	case r.Kind < recordAdmit || r.Kind > recordRestore:
		return nil, fmt.Errorf("log entry of unknown kind %d: this program is older than the run's", r.Kind)
	case r.Kind == recordAdmit && r.Member == nil:
		return nil, errors.New("log entry: admission of nobody")
	case r.Saved != nil && r.Saved.check() != nil:
		return nil, fmt.Errorf("log entry: %w", r.Saved.check())
	case len(r.Body) > wire.MaxPayload:
		return nil, fmt.Errorf("log entry of %d bytes: %w", len(r.Body), wire.ErrTooLong)
	}
	if r.Member != nil {
		if err := r.Member.check(); err != nil {
			return nil, fmt.Errorf("log entry: %w", err)
		}
	}
	return r, nil
}

// entryKinds maps the entries that end an attempt between the log and the caller.
var entryKinds = map[recordKind]EntryKind{
	recordCommit: EntryCommit, recordRetry: EntryRetry, recordDone: EntryDone, recordView: EntryView, recordLate: EntryLate,
	recordRestore: EntryRestore,
}

// record is the kind of entry that a decision becomes; 0 for what can't be decided.
func (k EntryKind) record() recordKind {
	return map[EntryKind]recordKind{EntryCommit: recordCommit, EntryRetry: recordRetry, EntryDone: recordDone, EntryStop: recordStop}[k]
}

// text makes a reason fit for the log, whatever it holds.
func text(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), wire.MaxText/2)], "")
}
