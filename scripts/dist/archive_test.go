package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"
	"time"
)

var (
	at      = time.Date(2026, 3, 4, 5, 6, 8, 0, time.UTC)
	packed  = []file{{"shoal", 0o755, bytes.Repeat([]byte("program "), 1000)}, {"LICENSE", 0o644, []byte("licence\n")}}
	formats = map[string]struct {
		pack   func(string, []file, time.Time) ([]byte, error)
		unpack func(*testing.T, []byte) []file
	}{"tar.gz": {tarGz, untar}, "zip": {zipped, unzip}}
)

func untar(t *testing.T, archive []byte) (files []file) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil || !h.ModTime.Equal(at) {
			t.Errorf("%s: %v, made at %v, want %v", h.Name, err, h.ModTime, at)
		}
		files = append(files, file{h.Name, fs.FileMode(h.Mode), data})
	}
}

func unzip(t *testing.T, archive []byte) (files []file) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil || !f.Modified.Equal(at) {
			t.Errorf("%s: %v, made at %v, want %v", f.Name, err, f.Modified, at)
		}
		files = append(files, file{f.Name, f.Mode(), data})
	}
	return files
}

func TestArchives(t *testing.T) {
	for name, format := range formats {
		t.Run(name, func(t *testing.T) {
			archive, err := format.pack("shoal-1", packed, at)
			if err != nil {
				t.Fatal(err)
			}
			got := format.unpack(t, archive)
			if !slices.EqualFunc(got, packed, func(a, b file) bool {
				return a.name == "shoal-1/"+b.name && a.mode == b.mode && bytes.Equal(a.data, b.data)
			}) {
				t.Errorf("it has %v, want %v", got, packed)
			}
			again, err := format.pack("shoal-1", packed, at.In(time.FixedZone("elsewhere", 3600)))
			if err != nil || !bytes.Equal(archive, again) {
				t.Errorf("packed again, in another time zone, it differs (%v)", err)
			}
		})
	}
}
