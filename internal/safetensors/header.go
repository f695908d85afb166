package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

const (
	maxHeader   = 100_000_000 // bytes, as in the reference implementation
	maxName     = 4096        // bytes
	maxDims     = 32
	lengthBytes = 8
	metadataKey = "__metadata__"
)

// header is what stands before the data.
type header struct {
	tensors  []Tensor
	begins   []int64 // where each tensor's data begins, counted from the end of the header; ascending
	size     int64   // bytes of data
	metadata map[string]string
	index    map[string]int // of a name in tensors
}

// layOut places the tensors: wide elements first, so that every tensor is aligned to its elements; equally wide ones in
// the order given.
func layOut(tensors []Tensor, metadata map[string]string) (*header, error) {
	h := &header{tensors: slices.Clone(tensors), metadata: metadata, index: map[string]int{}}
	for key, value := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil, fmt.Errorf("metadata %.80q is not UTF-8", key)
		}
	}
	slices.SortStableFunc(h.tensors, func(a, b Tensor) int { return cmp.Compare(b.DType.Size(), a.DType.Size()) })
	for i, t := range h.tensors {
		n, err := t.check()
		if err != nil {
			return nil, err
		}
		if !utf8.ValidString(t.Name) {
			return nil, fmt.Errorf("tensor name %.80q is not UTF-8", t.Name)
		}
		if _, twice := h.index[t.Name]; twice {
			return nil, fmt.Errorf("two tensors are named %.80q", t.Name)
		}
		if n > math.MaxInt64-maxHeader-lengthBytes-h.size {
			return nil, errors.New("the tensors together are larger than any file")
		}
		h.tensors[i].Shape = slices.Clone(t.Shape)
		h.begins = append(h.begins, h.size)
		h.index[t.Name] = i
		h.size += n
	}
	return h, nil
}

// entry is a tensor in the header's JSON.
type entry struct {
	DType   DType    `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// encode is the header with its length in front, such that the data begins at a multiple of 8.
func (h *header) encode() ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, lengthBytes))
	b.WriteByte('{')
	put := func(key string, value any) error {
		if b.Len() > lengthBytes+1 {
			b.WriteByte(',')
		}
		k, err := json.Marshal(key)
		if err != nil {
			return err
		}
		v, err := json.Marshal(value)
		b.Write(k)
		b.WriteByte(':')
		b.Write(v)
		return err
	}
	if len(h.metadata) > 0 {
		if err := put(metadataKey, h.metadata); err != nil {
			return nil, err
		}
	}
	for i, t := range h.tensors {
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		if err := put(t.Name, entry{t.DType, shape, [2]int64{h.begins[i], h.begins[i] + t.Bytes()}}); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	n := b.Len() - lengthBytes
	if n > maxHeader {
		return nil, fmt.Errorf("a header of %d bytes, at most %d: fewer tensors or shorter names are needed", n, maxHeader)
	}
	out := b.Bytes()
	binary.LittleEndian.PutUint64(out, uint64(n))
	return out, nil
}

// parseHeader reads the JSON of a file that has size bytes of data, and checks it against that.
func parseHeader(text []byte, size int64) (*header, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, errors.New("the header does not begin with {")
	}
	if !utf8.Valid(text) {
		return nil, errors.New("the header is not UTF-8")
	}
	p := headerParser{d: json.NewDecoder(bytes.NewReader(text)), h: &header{size: size, index: map[string]int{}}}
	p.d.UseNumber()
	if err := p.parse(); err != nil {
		return nil, err
	}
	if rest := bytes.TrimRight(text[p.d.InputOffset():], " "); len(rest) > 0 {
		return nil, fmt.Errorf("the header goes on behind its end, with %.20q", rest)
	}
	return p.h, p.finish()
}

// headerParser reads token by token: decoding into a map would let the last of two equal names win.
type headerParser struct {
	d    *json.Decoder
	h    *header
	ends []int64
}

func (p *headerParser) parse() error {
	return p.object("the header", func(name string) error {
		if name == metadataKey {
			return p.metadata()
		}
		if _, twice := p.h.index[name]; twice {
			return fmt.Errorf("two tensors are named %.80q", name)
		}
		return p.tensor(name)
	})
}

func (p *headerParser) metadata() error {
	if p.h.metadata != nil {
		return errors.New("the header has two " + metadataKey)
	}
	p.h.metadata = map[string]string{}
	return p.object(metadataKey, func(key string) error {
		value, err := p.text(metadataKey)
		if _, twice := p.h.metadata[key]; twice {
			return fmt.Errorf("%s has two values for %.80q", metadataKey, key)
		}
		p.h.metadata[key] = value
		return err
	})
}

func (p *headerParser) tensor(name string) error {
	t := Tensor{Name: name}
	var offsets []int64
	what := fmt.Sprintf("tensor %.80q", name)
	err := p.object(what, func(key string) (err error) {
		switch {
		case key == "dtype" && t.DType == "":
			var text string
			text, err = p.text(what)
			t.DType = DType(text)
		case key == "shape" && t.Shape == nil:
			t.Shape = []int{}
			err = p.numbers(what+"'s shape", maxDims, func(n int64) { t.Shape = append(t.Shape, int(n)) })
		case key == "data_offsets" && offsets == nil:
			err = p.numbers(what+"'s data_offsets", 2, func(n int64) { offsets = append(offsets, n) })
		default:
			err = fmt.Errorf("%s has the key %.80q twice, or it is unknown", what, key)
		}
		return err
	})
	if err != nil {
		return err
	}
	if t.DType == "" || t.Shape == nil || len(offsets) != 2 {
		return fmt.Errorf("%s needs a dtype, a shape and two data_offsets", what)
	}
	n, err := t.check()
	if err != nil {
		return err
	}
	if begin, end := offsets[0], offsets[1]; begin > end || end > p.h.size || end-begin != n {
		return fmt.Errorf("%s of %d bytes (%s, shape %v) can't be at %d to %d of %d bytes of data", what, n, t.DType, t.Shape, begin, end, p.h.size)
	}
	p.h.index[name] = len(p.h.tensors)
	p.h.tensors = append(p.h.tensors, t)
	p.h.begins = append(p.h.begins, offsets[0])
	p.ends = append(p.ends, offsets[1])
	return nil
}

// finish puts the tensors into the order of their data and checks that they fill it.
func (p *headerParser) finish() error {
	h := p.h
	order := make([]int, len(h.tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(h.begins[a], h.begins[b]), cmp.Compare(p.ends[a], p.ends[b]))
	})
	sorted := header{size: h.size, metadata: h.metadata, index: h.index}
	var at int64
	for _, i := range order {
		name := h.tensors[i].Name
		switch {
		case h.begins[i] < at:
			return fmt.Errorf("tensor %.80q overlaps the one before it", name)
		case h.begins[i] > at:
			return fmt.Errorf("there are %d bytes of no tensor before %.80q", h.begins[i]-at, name)
		}
		at = p.ends[i]
		sorted.index[name] = len(sorted.tensors)
		sorted.tensors = append(sorted.tensors, h.tensors[i])
		sorted.begins = append(sorted.begins, h.begins[i])
	}
	if at != h.size {
		return fmt.Errorf("the data has %d bytes, the tensors in the header %d", h.size, at)
	}
	*h = sorted
	return nil
}

// object reads an object and has value read the value of each key.
func (p *headerParser) object(what string, value func(key string) error) error {
	if err := p.delim(what, '{'); err != nil {
		return err
	}
	for p.d.More() {
		key, err := p.text(what)
		if err != nil {
			return err
		}
		if err := value(key); err != nil {
			return err
		}
	}
	return p.delim(what, '}')
}

func (p *headerParser) numbers(what string, most int, add func(int64)) error {
	if err := p.delim(what, '['); err != nil {
		return err
	}
	for n := 0; p.d.More(); n++ {
		if n == most {
			return fmt.Errorf("%s has more than %d numbers", what, most)
		}
		token, err := p.token(what)
		if err != nil {
			return err
		}
		text, ok := token.(json.Number)
		v, err := strconv.ParseUint(string(text), 10, 63)
		if !ok || err != nil {
			return fmt.Errorf("%s: %.40v is not a whole number that fits", what, token)
		}
		add(int64(v))
	}
	return p.delim(what, ']')
}

func (p *headerParser) delim(what string, want json.Delim) error {
	token, err := p.token(what)
	if err == nil && token != want {
		err = fmt.Errorf("%s: %.40v where %v should be", what, token, want)
	}
	return err
}

func (p *headerParser) text(what string) (string, error) {
	token, err := p.token(what)
	s, ok := token.(string)
	if err == nil && !ok {
		err = fmt.Errorf("%s: %.40v where a text should be", what, token)
	}
	return s, err
}

func (p *headerParser) token(what string) (json.Token, error) {
	token, err := p.d.Token()
	if err != nil {
		return nil, fmt.Errorf("%s: not JSON at byte %d: %w", what, p.d.InputOffset(), err)
	}
	return token, nil
}
