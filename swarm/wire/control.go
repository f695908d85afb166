package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/fxamacker/cbor/v2"
)

// Control messages travel on streams of ControlProtocol: a uint32 length (big-endian), then one Control in CBOR with
// integer keys. Kinds and keys are append-only: a number that was given once never gets another meaning.

const (
	// ControlProtocol is the protocol id of control streams. A handshake with another ControlVersion is refused.
	ControlProtocol = "/shoal/1/control"
	ControlVersion  = 2

	// RelayProtocol is the protocol id of streams that a third member carries between two that can't reach each other.
	RelayProtocol = "/shoal/1/relay"

	MaxControl   = 8 << 20            // bytes of a control message
	MaxHandshake = 64 << 10           // bytes of one from a peer that isn't known to be a member
	MaxPayload   = 4 << 20            // bytes of what a Ready, Commit, Retry or Done carries
	MaxRun       = 1 << 20            // bytes of a run's description
	MaxAddrs     = 16                 // addresses of one peer
	MaxHistory   = MaxControl - 1<<10 // bytes of what a member tells a newcomer of the steps before it came
	MaxIDs       = 256                // members that one waits for
	MaxText      = 1 << 10            // bytes of any other text
)

// ControlKind says what a Control is. The first group is the handshakes, the second is between members.
type ControlKind uint8

const (
	ControlDescribe ControlKind = 1 // what is this run?       Version Run Secret           -> Run, Refused
	ControlJoin     ControlKind = 2 // let me in               Version Run Secret Addrs Offer -> Welcome, Refused, Redirect
	ControlHello    ControlKind = 3 // a member's stream       Version Run From To Index Generation -> Accept, Refused, Gone
	ControlRun      ControlKind = 4 // Body: the description
	ControlWelcome  ControlKind = 5 // To: the member id given, Body: a snapshot of the log
	ControlRefused  ControlKind = 6 // Reason
	ControlRedirect ControlKind = 7 // Peer, Addrs: who leads; an empty Peer means ask again later
	ControlAccept   ControlKind = 8

	ControlHistory  ControlKind = 9  // between members: what came before me?   Version Run From To, Body: what of it -> Answer, Refused
	ControlSnapshot ControlKind = 10 // to begin the log anew in Generation, give yours    the same -> Answer, Refused
	ControlAdopt    ControlKind = 11 // go on with the snapshot in Body of Generation      the same -> Accept, Refused
	ControlAnswer   ControlKind = 12 // Body; to Snapshot: Saved
	ControlRelay    ControlKind = 13 // carry this stream to member To   Version Run From To Protocol -> Accept, Refused (Have: it is dead)
	ControlCarried  ControlKind = 14 // this stream is from Peer         Version Run From To Protocol Peer -> Accept, Refused

	ControlRaft  ControlKind = 16 // Body: a raftpb.Message
	ControlBeat  ControlKind = 17 // Fence, Index applied; Have: your Ready is here; Reason: why I am leaving; Phase, Unit, IDs: whom I wait for; Saved: the newest checkpoint that I can read
	ControlReady ControlKind = 18 // Fence; Body: the payload
	ControlGone  ControlKind = 19 // Index of the entry that removed you; Reason
)

// Control is one control message; ControlKind says which fields each kind has.
type Control struct {
	Kind    ControlKind `cbor:"1,keyasint"`
	Version int         `cbor:"2,keyasint,omitempty"`
	Run     string      `cbor:"3,keyasint,omitempty"` // run id
	Secret  string      `cbor:"4,keyasint,omitempty"` // from the invitation
	Peer    string      `cbor:"5,keyasint,omitempty"`
	Addrs   []string    `cbor:"6,keyasint,omitempty"`
	Offer   *Offer      `cbor:"7,keyasint,omitempty"`
	From    uint64      `cbor:"8,keyasint,omitempty"` // member ids
	To      uint64      `cbor:"9,keyasint,omitempty"`
	Fence   uint64      `cbor:"10,keyasint,omitempty"`
	Index   uint64      `cbor:"11,keyasint,omitempty"` // in the log
	Body    []byte      `cbor:"12,keyasint,omitempty"`
	Reason  string      `cbor:"13,keyasint,omitempty"`
	Have    bool        `cbor:"14,keyasint,omitempty"`

	Phase      string   `cbor:"15,keyasint,omitempty"` // of the attempt
	Unit       int      `cbor:"16,keyasint,omitempty"`
	IDs        []uint64 `cbor:"17,keyasint,omitempty"` // member ids
	Generation uint64   `cbor:"18,keyasint,omitempty"` // of the log
	Protocol   string   `cbor:"19,keyasint,omitempty"` // of a stream
	Saved      string   `cbor:"20,keyasint,omitempty"` // name of a checkpoint
}

// Offer is what a peer brings to a run, told once at admission.
type Offer struct {
	Kind        string `cbor:"1,keyasint,omitempty"` // "daemon"; only daemons vote
	Weight      int64  `cbor:"2,keyasint,omitempty"` // memory weight: shards follow it
	Cores       int    `cbor:"3,keyasint,omitempty"`
	Backend     string `cbor:"4,keyasint,omitempty"`
	Fingerprint string `cbor:"5,keyasint,omitempty"` // of the kernels
	ModelHash   string `cbor:"6,keyasint,omitempty"`
	Version     string `cbor:"7,keyasint,omitempty"`  // of the program
	Out         bool   `cbor:"8,keyasint,omitempty"`  // wants the final parameters
	Late        bool   `cbor:"9,keyasint,omitempty"`  // lacks the state that the run begins with: it is not in the first view
	Data        bool   `cbor:"10,keyasint,omitempty"` // has all of the run's data files
}

// ErrTooLong is returned for a message, or a part of one, beyond its cap.
var ErrTooLong = errors.New("message is longer than allowed")

var (
	encoding = must(cbor.CoreDetEncOptions().EncMode())
	decoding = must(cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		IndefLength:      cbor.IndefLengthForbidden,
		TagsMd:           cbor.TagsForbidden,
		MaxNestedLevels:  8,
		MaxArrayElements: 1 << 16, // ranges and fills of a large model
		MaxMapPairs:      64,
	}.DecMode())
)

func must[T any](mode T, err error) T {
	if err != nil {
		panic(err) // an option above is wrong
	}
	return mode
}

// Marshal encodes v deterministically: equal values have equal bytes.
func Marshal(v any) ([]byte, error) { return encoding.Marshal(v) }

// Unmarshal decodes one value that fills data. It checks the whole of data before it allocates, so a length inside
// data can't cost more memory than data is long.
func Unmarshal(data []byte, v any) error { return decoding.Unmarshal(data, v) }

// AppendControl appends m as it travels.
func AppendControl(b []byte, m *Control) ([]byte, error) {
	body, err := Marshal(m)
	if err != nil {
		return b, fmt.Errorf("control message: %w", err)
	}
	if len(body) > MaxControl {
		return b, fmt.Errorf("control message of %d bytes, at most %d: %w", len(body), MaxControl, ErrTooLong)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return append(b, body...), nil
}

// ReadControl reads one message of at most limit bytes. Memory grows with what has arrived, not with what is announced.
// At the end of the stream it returns io.EOF.
func ReadControl(r io.Reader, limit int) (*Control, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > int64(limit) {
		return nil, fmt.Errorf("control message of %d bytes, at most %d: %w", size, limit, ErrTooLong)
	}
	body, err := readGrowing(r, int(size))
	if err != nil {
		return nil, fmt.Errorf("control message: %w", err)
	}
	return DecodeControl(body)
}

// DecodeControl decodes a message without its length. The message shares no memory with body.
func DecodeControl(body []byte) (*Control, error) {
	m := &Control{}
	if err := Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("control message: %w", err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("control message of kind %d: %w", m.Kind, err)
	}
	return m, nil
}

func (m *Control) check() error {
	if m.Kind == 0 {
		return errors.New("no kind")
	}
	if len(m.Addrs) > MaxAddrs {
		return fmt.Errorf("%d addresses, at most %d: %w", len(m.Addrs), MaxAddrs, ErrTooLong)
	}
	if len(m.IDs) > MaxIDs {
		return fmt.Errorf("%d member ids, at most %d: %w", len(m.IDs), MaxIDs, ErrTooLong)
	}
	texts := append([]string{m.Run, m.Secret, m.Peer, m.Reason, m.Phase, m.Protocol, m.Saved}, m.Addrs...)
	if o := m.Offer; o != nil {
		texts = append(texts, o.Kind, o.Backend, o.Fingerprint, o.ModelHash, o.Version)
	}
	for _, t := range texts {
		if len(t) > MaxText {
			return fmt.Errorf("text of %d bytes, at most %d: %w", len(t), MaxText, ErrTooLong)
		}
	}
	limit := MaxControl // raft messages and snapshots: as long as the whole may be
	switch m.Kind {
	case ControlReady:
		limit = MaxPayload
	case ControlRun:
		limit = MaxRun
	}
	if len(m.Body) > limit {
		return fmt.Errorf("body of %d bytes, at most %d: %w", len(m.Body), limit, ErrTooLong)
	}
	return nil
}

// readGrowing reads n bytes in steps that double, so that an announced length alone costs no memory.
func readGrowing(r io.Reader, n int) ([]byte, error) {
	var b []byte
	for len(b) < n {
		step := min(n-len(b), max(len(b), 16<<10))
		b = append(b, make([]byte, step)...)
		if _, err := io.ReadFull(r, b[len(b)-step:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return b, nil
}
