package peer

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// [Note: who gets the secret]
//
// A link names the peer that one asks, and libp2p sees to it that nobody else answers. Whoever finds a run in another
// way has no such name: in the DHT anybody may claim to be a member, and on a local network too. So a joiner never sends
// the secret to a peer that it found. In the DHT it asks for a proof that the peer knows the secret (proof); on a local
// network it has no secret, and whoever runs by that name may give it one.

var (
	// ErrRunNotFound is wrapped by FindRun and FindLAN when nobody was found in time.
	ErrRunNotFound = errors.New("the run was not found")

	// ErrUnknownHost is wrapped by FindRun and JoinDHT when the host name of an address to ask at means nothing.
	ErrUnknownHost = errors.New("unknown host")

	// ErrWrongSecret is wrapped by FindRun when members were found but the secret is not theirs.
	ErrWrongSecret = errors.New("the secret is not that of the run")
)

const (
	dhtPrefix     = "/shoal" // of protocol names; nodes with another prefix are another DHT
	dhtProtocol   = dhtPrefix + "/kad/1.0.0"
	proofProtocol = "/shoal/run/1"
	proofTimeout  = 5 * time.Second
	findPause     = 300 * time.Millisecond // before looking again

	invitationDigits = 32 // of a run id and of a secret

	maxLANName   = 64
	lanNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
)

// Invitation is the short form of a link, for those who know the address of any peer: "run.secret".
func (l Link) Invitation() string { return l.Run + "." + l.Secret }

// ParseInvitation reads what Invitation has written. Space around it, and upper case, do no harm.
func ParseInvitation(text string) (run, secret string, err error) {
	run, secret, ok := strings.Cut(strings.TrimSpace(text), ".")
	switch {
	case strings.HasPrefix(text, linkPrefix):
		return "", "", fmt.Errorf("%w: it is a whole link, which needs no address to ask at", ErrBadLink)
	case !ok || run == "" || secret == "":
		return "", "", fmt.Errorf("%w: want RUN-ID.SECRET, as the peer that started the run shows it", ErrBadLink)
	}
	run, secret = strings.ToLower(run), strings.ToLower(secret)
	for _, f := range []struct{ name, text string }{{"run id", run}, {"secret", secret}} {
		if n := len(f.text); n != invitationDigits {
			return "", "", fmt.Errorf("%w: want RUN-ID.SECRET, of %d hexadecimal digits each; this %s has %d characters", ErrBadLink, invitationDigits, f.name, n)
		}
		if strings.Trim(f.text, "0123456789abcdef") != "" {
			return "", "", fmt.Errorf("%w: want RUN-ID.SECRET, of %d hexadecimal digits each; this %s has others", ErrBadLink, invitationDigits, f.name)
		}
	}
	return run, secret, nil
}

// CheckLANName says what is wrong with a run's name on the local network, if anything.
func CheckLANName(name string) error {
	if name == "" || len(name) > maxLANName || strings.Trim(name, lanNameChars) != "" {
		return fmt.Errorf("%.100q is no name for the local network: want 1 to %d letters, digits, '.', '-' or '_'", name, maxLANName)
	}
	return nil
}

// runKey stands for a run where others can see it.
func runKey(run string) [sha256.Size]byte { return sha256.Sum256([]byte("shoal run\x00" + run)) }

// A proof is asked for with a runKey and as many random bytes, the nonce, and is as long. It holds for these two peers
// only, so it is of no use to one that passes questions on.
type proofRequest [2 * sha256.Size]byte

func proof(secret string, q proofRequest, asker, member peer.ID) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "shoal: a member knows the secret\x00%s%d %s%d %s", q[:], len(asker), string(asker), len(member), string(member))
	return h.Sum(nil)
}

// answerProof is a handler of proofProtocol. secret finds a run's secret.
func answerProof(self peer.ID, secret func(key [sha256.Size]byte) (string, bool)) func(from string, c net.Conn) {
	return func(from string, c net.Conn) {
		defer c.Close()
		asker, err := peer.Decode(from)
		if err != nil || c.SetDeadline(time.Now().Add(proofTimeout)) != nil {
			return
		}
		var q proofRequest
		if _, err := io.ReadFull(c, q[:]); err != nil {
			return
		}
		if s, ok := secret([sha256.Size]byte(q[:sha256.Size])); ok {
			c.Write(proof(s, q, asker, self))
		}
	}
}

// ask opens a stream, sends a question, and reads an answer of at most that many bytes.
func (h *Host) ask(ctx context.Context, id peer.ID, addrs []string, proto string, question []byte, most int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	c, err := h.Open(ctx, id.String(), addrs, proto)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := c.Write(question); err != nil {
		return nil, err
	}
	if err := c.(*streamConn).CloseWrite(); err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(c, int64(most)+1))
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil && len(answer) > most:
		err = fmt.Errorf("peer %s gave an answer of more than %d bytes", id, most)
	}
	return answer, err
}
