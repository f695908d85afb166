package fsdp

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestHashText(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 4)
	var h Hash
	if err := h.UnmarshalText([]byte(text)); err != nil || h.String() != text {
		t.Errorf("%s, %v; want %s", h, err, text)
	}
	b, err := json.Marshal(map[int]Hash{7: h})
	if want := `{"7":"` + text + `"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
	for _, bad := range []string{"", text[1:], text + "0", "x" + text[1:]} {
		if err := new(Hash).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
		o := Outcome{Kind: EntryDone, StateHash: bad}
		if _, ok := o.Hash(); ok || (o.check(0) == nil) != (bad == "") {
			t.Errorf("an outcome with the hash %q: %v, %v", bad, ok, o.check(0))
		}
	}
}
