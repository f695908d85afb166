package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestJSONRoundTrip(t *testing.T) {
	want := sample(3)
	text, err := want.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("report comes back as %+v, want %+v", got, want)
	}
}

func TestJSONOfAnEmptyReport(t *testing.T) {
	text, err := Report{}.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"version": 1`, `"loss": []`, `"eval": null`, `"step_hashes": {}`, `"peers": []`, `"views": []`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestJSONOfLossesThatAreNotFinite(t *testing.T) {
	r := Report{Loss: []float64{1.5, math.NaN(), math.Inf(1), math.Inf(-1)}, Eval: &Eval{Loss: Number(math.NaN())}}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"loss":[1.5,null,null,null]`, `"loss":null`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Loss) != 4 || back.Loss[0] != 1.5 || !math.IsNaN(back.Loss[1]) || !math.IsNaN(float64(back.Eval.Loss)) {
		t.Errorf("losses come back as %v and %v", back.Loss, back.Eval.Loss)
	}
}

// fieldsOf lists the JSON's fields: "eval.accuracy", "peers[].rank".
func fieldsOf(t reflect.Type, prefix string) []string {
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)
		key := prefix + f.Tag.Get("json")
		inner := f.Type
		switch inner.Kind() {
		case reflect.Pointer:
			inner = inner.Elem()
		case reflect.Slice:
			if inner.Elem().Kind() == reflect.Struct {
				inner, key = inner.Elem(), key+"[]"
			}
		}
		keys = append(keys, key)
		if inner.Kind() == reflect.Struct {
			keys = append(keys, fieldsOf(inner, key+".")...)
		}
	}
	return keys
}

func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| .+ \\| .+ \\|$").FindAllSubmatch(text, -1) {
		got = append(got, string(m[1]))
	}
	if want := fieldsOf(reflect.TypeFor[Report](), ""); !slices.Equal(got, want) {
		t.Errorf("docs/report.md has the fields\n%s\nthe report has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTable(t *testing.T) {
	r := sample(12)
	for _, width := range []int{0, 1, 10, 40, 60, 80, 100, 1000} {
		var b strings.Builder
		if err := r.Table(&b, width); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != 13 {
			t.Fatalf("width %d: %d lines, want 13", width, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("width %d: a line of %d: %q", width, n, line)
			}
		}
	}
	for width, want := range map[int]string{
		40: `rank  samples   at rest  received
   0     7100  2.60 MiB  1.15 GiB
   1     7000  2.60 MiB  1.15 GiB
`,
		80: `rank  peer       samples  share  owned   at rest  RSS peak      sent  received
   0  …0HuPq0Tz     7100  50.4%   152k  2.60 MiB  84.9 MiB  1.16 GiB  1.15 GiB
   1  …1HuPq1Tz     7000  49.6%   152k  2.60 MiB  85.9 MiB  1.16 GiB  1.15 GiB
`,
		1000: `rank  peer       kind    backend     samples  share  owned   at rest  borrowed  RSS peak      sent  received  retries
   0  …0HuPq0Tz  daemon  cpu/avx512     7100  50.4%   152k  2.60 MiB   424 KiB  84.9 MiB  1.16 GiB  1.15 GiB        0
   1  …1HuPq1Tz  daemon  cpu/avx512     7000  49.6%   152k  2.60 MiB   848 KiB  85.9 MiB  1.16 GiB  1.15 GiB        0
`,
	} {
		two := sample(2)
		var b strings.Builder
		if err := two.Table(&b, width); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("width %d: got\n%swant\n%s", width, b.String(), want)
		}
	}
}

func TestTableIsCleanOfControlCharacters(t *testing.T) {
	r := Report{Peers: []Peer{{PeerID: "\x1b[2Ja\nb", Kind: "\a", Backend: "\x1b]0;x\a"}}}
	var b strings.Builder
	if err := r.Table(&b, 200); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\a") || strings.Count(b.String(), "\n") != 2 {
		t.Errorf("control characters came through: %q", b.String())
	}
}

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Bytes(0), "0 B"}, {Bytes(1023), "1023 B"}, {Bytes(1024), "1.00 KiB"}, {Bytes(10239), "10.0 KiB"},
		{Bytes(1<<20 - 1), "1.00 MiB"}, {Bytes(999 << 20), "999 MiB"}, {Bytes(1 << 40), "1.00 TiB"},
		{Bytes(math.MaxInt64), "8192 PiB"}, {Bytes(-1), "-1 B"},
		{Count(999), "999"}, {Count(9999), "9999"}, {Count(10000), "10.0k"}, {Count(999_499), "999k"}, {Count(999_600), "1.00M"},
		{Count(604_000_000), "604M"}, {Count(math.MaxInt64), "9223372T"},
		{grouped(5), "5"}, {grouped(1234567), "1\u2009234\u2009567"}, {grouped(-123456), "-123\u2009456"},
		{percent(0.98765), "98.8%"}, {percent(math.NaN()), "-"},
		{lossText(0.0431), "0.0431"}, {lossText(1e-5), "1.00e-05"}, {lossText(math.NaN()), "not finite"}, {lossText(0), "0.0000"},
		{seconds(3.14), "3.1 s"}, {seconds(125), "2m 05s"}, {seconds(7260), "2h 01m"}, {seconds(math.NaN()), "-"}, {seconds(-1), "-"},
		{shortID("12D3KooWabcdefgh"), "…abcdefgh"}, {shortID("abc"), "abc"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
