//go:build !js

package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"path"
	"strings"

	kernel "shoal/kernel/wasm"
	"shoal/wasm/web"
)

// ErrNotBuilt says that this program has no peer for browsers inside.
var ErrNotBuilt = errors.New("this program was built without the browser's peer: run `make wasm` in its source and build it again")

// file is something that is served, as it is and compressed.
type file struct {
	kind   string            // media type
	etag   string            // of the content
	coded  map[string][]byte // by content coding; "" as it is
	maxAge string
}

const (
	immutable  = "public, max-age=31536000, immutable"
	revalidate = "no-cache" // ask each time, by the content's hash
)

// smallest is below what compressing is of no use, in bytes.
const smallest = 256

// codings are those that are made at build, by the ending of their files, best first.
var codings = []struct{ name, ending string }{{"br", ".br"}, {"gzip", ".gz"}}

// load has all files by the path at which they are served.
func load(c Config) (map[string]*file, error) {
	dist := c.Dist
	if dist == nil {
		var err error
		if dist, err = fs.Sub(web.Files, "dist"); err != nil {
			return nil, err
		}
	}
	if _, err := fs.Stat(dist, web.Script); err != nil {
		return nil, ErrNotBuilt
	}
	files := map[string]*file{}
	for _, part := range []struct {
		prefix string
		files  fs.FS
	}{{"/", web.Files}, {"/dist/", dist}, {"/kernel/", kernel.Files}, {"/", c.More}} {
		prefix, from := part.prefix, part.files
		if from == nil {
			continue
		}
		err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
			switch {
			case err == nil && prefix == "/" && name == "dist":
				return fs.SkipDir // it is a part of its own
			case err != nil || d.IsDir():
				return err
			}
			data, err := fs.ReadFile(from, name)
			if err == nil {
				err = add(files, prefix+name, data)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("page: %w", err)
		}
	}
	index := files["/page/index.html"]
	if index == nil {
		return nil, ErrNotBuilt
	}
	files["/"] = index
	return files, nil
}

// add takes in a file. One whose name ends as a coding's is that coding of the file without the ending.
func add(files map[string]*file, name string, data []byte) error {
	coding := ""
	for _, c := range codings {
		if bare, ok := strings.CutSuffix(name, c.ending); ok {
			name, coding = bare, c.name
		}
	}
	f := files[name]
	if f == nil {
		f = &file{kind: mediaType(name), coded: map[string][]byte{}, maxAge: revalidate}
		files[name] = f
	}
	f.coded[coding] = data
	if coding != "" {
		f.etag, f.maxAge = path.Base(name), immutable // its name has a hash in it
		return nil
	}
	f.etag = fmt.Sprintf("%x", sha256.Sum256(data))[:16]
	if len(data) < smallest {
		return nil
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if b.Len() < len(data) {
		f.coded["gzip"] = b.Bytes()
	}
	return nil
}

// mediaType is a file's type by its name: those that matter here don't depend on the machine's tables.
func mediaType(name string) string {
	switch path.Ext(name) {
	case ".mjs", ".js":
		return "text/javascript; charset=utf-8"
	case ".wasm":
		return "application/wasm"
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".json", ".webmanifest":
		return "application/json"
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}
