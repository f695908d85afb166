package peer

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
)

// ErrIdentityInUse is wrapped when another process holds the identity file. Two processes with one peer id would pull
// each other's connections away.
var ErrIdentityInUse = errors.New("identity is in use by another process")

const (
	maxIdentityFile = 4096 // bytes
	pemPeerID       = "Peer-Id"
)

// identity is a private key and, if it came from a file, that file, locked as long as the identity is held.
type identity struct {
	key  crypto.PrivKey
	file *os.File // nil if ephemeral
}

func (i *identity) release() error {
	if i.file == nil {
		return nil
	}
	return i.file.Close() // which unlocks it
}

// openIdentity loads and locks the identity at path, and makes it if nothing is there. Path "" is a key of its own that
// is written nowhere.
func openIdentity(path string) (*identity, error) {
	if path == "" {
		_, key, err := newKey()
		return &identity{key: key}, err
	}
	// The file may be made, or replaced, between two looks at it: then look again.
	for range 10 {
		id, err := loadIdentity(path)
		if errors.Is(err, fs.ErrNotExist) {
			if err := createIdentity(path); err != nil {
				return nil, fmt.Errorf("peer: identity %s: %w", path, err)
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("peer: identity %s: %w", path, err)
		}
		if id != nil {
			return id, nil
		}
	}
	return nil, fmt.Errorf("peer: identity %s: it keeps changing", path)
}

// loadIdentity returns nil, nil if the file was replaced meanwhile.
func loadIdentity(path string) (_ *identity, err error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() { // before opening: opening a pipe would block
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := lockFile(f); err != nil {
		return nil, err
	}
	held, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(held, now) {
		f.Close()
		return nil, nil
	}
	if err := checkPrivate(held); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIdentityFile+1))
	if err != nil {
		return nil, err
	}
	key, err := decodeKey(text)
	if err != nil {
		return nil, err
	}
	return &identity{key: key, file: f}, nil
}

// createIdentity writes a new key so that path holds all of it or doesn't exist.
func createIdentity(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	text, _, err := newKey()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".identity-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	// A link, unlike a rename, doesn't replace what another process has just made.
	if err := os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		if err := os.Rename(f.Name(), path); err != nil {
			return err
		}
	}
	return syncDir(dir)
}

// newKey makes a key and its file's content.
func newKey() (text []byte, _ crypto.PrivKey, _ error) {
	_, raw, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	key, id, err := fromEd25519(raw)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(raw)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{
		Type: "PRIVATE KEY", Headers: map[string]string{pemPeerID: id.String()}, Bytes: der,
	}), key, nil
}

// decodeKey reads a PEM file with an Ed25519 key. The peer id in its header shows whether the key is still the same.
func decodeKey(text []byte) (crypto.PrivKey, error) {
	bad := errors.New("it is corrupt or no Ed25519 key in PEM form: restore it, or move it away to get a new identity")
	block, _ := pem.Decode(text)
	if len(text) > maxIdentityFile || block == nil || block.Type != "PRIVATE KEY" {
		return nil, bad
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, bad
	}
	raw, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, bad
	}
	key, id, err := fromEd25519(raw)
	if err != nil {
		return nil, bad
	}
	if want, ok := block.Headers[pemPeerID]; ok && want != id.String() {
		return nil, bad
	}
	return key, nil
}

func fromEd25519(raw ed25519.PrivateKey) (crypto.PrivKey, peer.ID, error) {
	key, err := crypto.UnmarshalEd25519PrivateKey(raw)
	if err != nil {
		return nil, "", err
	}
	id, err := peer.IDFromPrivateKey(key)
	return key, id, err
}
