package peer

import (
	"bytes"
	"compress/flate"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// Link is what a peer needs to join a run: who to ask, where, for which run, and the invitation's secret.
//
// Its text is one word, "shoal:" and lower-case base32, which shells, chat programs and URLs leave alone. In it are, in
// this order: version (1 byte), peer id, run, secret, count of addresses, addresses, each with its length in front, and
// a CRC-32C of all that. In version 2 the part from the count on is compressed (DEFLATE): addresses of WebTransport have
// two hashes each, which are the same in all of them. Of the two versions the shorter one is written.
type Link struct {
	Peer   string   // peer id
	Addrs  []string // multiaddrs at which to dial it, at most 32
	Run    string   // the run's id; printable ASCII, at most 128 bytes
	Secret string   // from NewSecret; printable ASCII, at most 128 bytes
}

// ErrBadLink is wrapped by each error of ParseLink.
var ErrBadLink = errors.New("not a usable link")

const (
	linkPrefix   = "shoal:"
	linkVersion  = 1
	linkPacked   = 2    // the version whose addresses are compressed
	maxLinkText  = 8192 // bytes
	maxLinkAddrs = 32
	maxLinkField = 128 // bytes of run and secret
	maxLinkPeer  = 64  // bytes of a binary peer id
	maxLinkAddr  = 256 // bytes of a binary multiaddr
)

var (
	linkCoding = base32.StdEncoding.WithPadding(base32.NoPadding)
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// NewSecret makes an invitation's secret: 128 random bits as 32 hexadecimal digits.
func NewSecret() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Check says what is wrong with a link, if anything.
func (l Link) Check() error {
	_, err := l.encode()
	return err
}

// String is the link as text, or "" if Check has something to say.
func (l Link) String() string {
	b, err := l.encode()
	if err != nil {
		return ""
	}
	return linkPrefix + strings.ToLower(linkCoding.EncodeToString(b))
}

func (l Link) encode() ([]byte, error) {
	id, err := parsePeer(l.Peer)
	if err != nil {
		return nil, err
	}
	head := appendField(nil, []byte(id))
	for _, f := range []struct{ name, text string }{{"run", l.Run}, {"secret", l.Secret}} {
		if len(f.text) > maxLinkField || !printable(f.text) {
			return nil, fmt.Errorf("link's %s must be printable ASCII, at most %d bytes", f.name, maxLinkField)
		}
		head = appendText(head, f.text)
	}
	if len(l.Addrs) > maxLinkAddrs {
		return nil, fmt.Errorf("link has %d addresses, at most %d", len(l.Addrs), maxLinkAddrs)
	}
	addrs := []byte{byte(len(l.Addrs))}
	for _, text := range l.Addrs {
		a, err := parseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("link's %w", err)
		}
		if len(a.Bytes()) > maxLinkAddr {
			return nil, fmt.Errorf("link's address %q is too long", text)
		}
		addrs = appendField(addrs, a.Bytes())
	}
	version := byte(linkVersion)
	if packed := deflate(addrs); len(packed) < len(addrs) {
		version, addrs = linkPacked, packed
	}
	b := slices.Concat([]byte{version}, head, addrs)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// ParseLink reads a link. Space around it, and upper case, do no harm.
func ParseLink(text string) (Link, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxLinkText {
		return Link{}, fmt.Errorf("%w: %d bytes, at most %d", ErrBadLink, len(text), maxLinkText)
	}
	if len(text) < len(linkPrefix) || !strings.EqualFold(text[:len(linkPrefix)], linkPrefix) {
		return Link{}, fmt.Errorf("%w: it doesn't start with %q", ErrBadLink, linkPrefix)
	}
	b, err := linkCoding.DecodeString(strings.ToUpper(text[len(linkPrefix):]))
	if err != nil || len(b) < 5 ||
		crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return Link{}, fmt.Errorf("%w: it is cut short or mistyped", ErrBadLink)
	}
	if b[0] != linkVersion && b[0] != linkPacked {
		return Link{}, fmt.Errorf("%w: it is of version %d, this program reads versions up to %d", ErrBadLink, b[0], linkPacked)
	}
	l, err := decodeLink(b[1:len(b)-4], b[0] == linkPacked)
	if err != nil {
		return Link{}, fmt.Errorf("%w: %w", ErrBadLink, err)
	}
	return l, nil
}

// decodeLink reads the fields behind the version. packed says that the addresses are compressed.
func decodeLink(b []byte, packed bool) (l Link, err error) {
	d := linkDecoder{b: b}
	id := d.field(maxLinkPeer)
	l.Run = d.text()
	l.Secret = d.text()
	if packed && d.err == nil {
		d.b, d.err = inflate(d.b)
	}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		a, err := ma.NewMultiaddrBytes(d.field(maxLinkAddr))
		if d.err == nil && err != nil {
			return l, errors.New("an address in it is not a multiaddr")
		}
		if d.err == nil {
			l.Addrs = append(l.Addrs, a.String())
		}
	}
	if d.err != nil || len(d.b) != 0 {
		return l, errors.New("its fields don't fit together")
	}
	p, err := peer.IDFromBytes(id)
	if err != nil {
		return l, errors.New("the peer id in it is not valid")
	}
	l.Peer = p.String()
	return l, l.Check()
}

func deflate(b []byte) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // the level is valid, and a Buffer takes all
	}
	return out.Bytes()
}

// inflate undoes deflate for what a link may have of addresses.
func inflate(b []byte) ([]byte, error) {
	const most = 1 + maxLinkAddrs*(2+maxLinkAddr) // bytes
	out, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b)), most+1))
	if err != nil || len(out) > most {
		return nil, errLinkField
	}
	return out, nil
}

// linkDecoder reads fields; after the first error all are empty.
type linkDecoder struct {
	b   []byte
	err error
}

var errLinkField = errors.New("bad field")

func (d *linkDecoder) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if d.err != nil || n <= 0 || v > limit {
		d.err = errLinkField
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *linkDecoder) take(n int) []byte {
	if d.err != nil || n > len(d.b) {
		d.err = errLinkField
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *linkDecoder) field(limit int) []byte { return d.take(int(d.uvarint(uint64(limit)))) }

func (d *linkDecoder) count() int { return int(d.uvarint(maxLinkAddrs)) }

// text undoes appendText.
func (d *linkDecoder) text() string {
	v := d.uvarint(2*maxLinkField + 1)
	raw := d.take(int(v >> 1))
	if v&1 != 0 {
		return hex.EncodeToString(raw)
	}
	return string(raw)
}

func appendField(b, field []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(field))), field...)
}

// appendText halves hexadecimal text, which run ids and secrets are: the lowest bit of the length says so.
func appendText(b []byte, s string) []byte {
	if raw, err := hex.DecodeString(s); err == nil && hex.EncodeToString(raw) == s {
		return append(binary.AppendUvarint(b, uint64(len(raw))<<1|1), raw...)
	}
	return append(binary.AppendUvarint(b, uint64(len(s))<<1), s...)
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
