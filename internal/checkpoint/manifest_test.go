package checkpoint

import (
	"reflect"
	"strings"
	"testing"

	"shoal/fsdp"
)

func sample() *Manifest {
	hash := strings.Repeat("0123456789abcdef", 4)
	return &Manifest{Version: 1, Run: Run{Task: "t", RunFile: "name: <a & b>\n", ID: "r"},
		Position: fsdp.Position{Step: 20, Updates: 19, Bad: 0, Exponents: []int16{-3, 0, 7}, StateHash: hash},
		Files:    []File{{"unit-0000.rank-00.safetensors", 100, hash}, {"history.safetensors", 0, hash}}}
}

func TestManifest(t *testing.T) {
	text, hash, err := sample().encode()
	if err != nil {
		t.Fatal(err)
	}
	got, gotHash, err := Decode(text)
	if err != nil || gotHash != hash || !reflect.DeepEqual(got, sample()) {
		t.Fatalf("got %+v, %s, %v", got, gotHash, err)
	}
	for n := range text[:len(text)-1] {
		if _, _, err := Decode(text[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are a manifest", n, len(text))
		}
	}
	// Whatever bit flips, it is noticed, or means nothing.
	for i := range text {
		for bit := range 8 {
			text[i] ^= 1 << bit
			if got, _, err := Decode(text); err == nil && !reflect.DeepEqual(got, sample()) {
				t.Fatalf("bit %d of byte %d, now %q, gives %+v", bit, i, text[i], got)
			}
			text[i] ^= 1 << bit
		}
	}
}

func TestManifestRefused(t *testing.T) {
	for want, change := range map[string]func(m *Manifest){
		"version 2":                  func(m *Manifest) { m.Version = 2 },
		"step 0":                     func(m *Manifest) { m.Step = 0 },
		"21 updates":                 func(m *Manifest) { m.Updates = 21 },
		`state hash "x"`:             func(m *Manifest) { m.StateHash = "x" },
		`named "../x.safetensors"`:   func(m *Manifest) { m.Files[0].Name = "../x.safetensors" },
		`named "manifest.json"`:      func(m *Manifest) { m.Files[0].Name = manifestFile },
		"two files named history":    func(m *Manifest) { m.Files[0].Name = "history.safetensors" },
		"-1 bytes":                   func(m *Manifest) { m.Files[0].Bytes = -1 },
		`hash "y"`:                   func(m *Manifest) { m.Files[0].SHA256 = "y" },
		"with 0 files of the losses": func(m *Manifest) { m.Files = m.Files[:1] },
		"1048577 exponents and 2":    func(m *Manifest) { m.Exponents = make([]int16, maxExponents+1) },
		"manifest of 67108865 byte":  nil,
	} {
		m := sample()
		var err error
		if change == nil {
			_, _, err = Decode(make([]byte, maxManifest+1))
		} else {
			change(m)
			_, _, err = m.encode()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	text, _, err := sample().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","manifest":{}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, hash, err := Decode(b)
		if err != nil {
			return
		}
		again, _, err := m.encode()
		if err != nil {
			t.Fatalf("%+v is read and can't be written: %v", m, err)
		}
		if got, _, err := Decode(again); err != nil || !reflect.DeepEqual(got, m) || hash == "" {
			t.Fatalf("%+v comes back as %+v, %v", m, got, err)
		}
	})
}

// FuzzDecodeSealed gets past the hash.
func FuzzDecodeSealed(f *testing.F) {
	text, _, err := sample().encode()
	if err != nil {
		f.Fatal(err)
	}
	_, inner, _ := strings.Cut(string(text), `"manifest":`)
	f.Add(strings.TrimSuffix(inner, "}\n"))
	f.Add(`{"version":1,"files":[{"name":"history.safetensors"}]}`)
	f.Fuzz(func(t *testing.T, manifest string) {
		m, _, err := Decode([]byte(`{"sha256":"` + hashOf([]byte(manifest)) + `","manifest":` + manifest + "}"))
		if err != nil {
			return
		}
		if err := m.check(); err != nil {
			t.Fatal(err)
		}
	})
}
