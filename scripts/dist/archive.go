package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// A file of an archive. Its time is that of the commit, and its owner nobody, so that the same commit gives the same bytes.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

// tarGz packs files under a folder, for Unix.
func tarGz(folder string, files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression) // its header has no name and no time
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: folder + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := t.Write(f.data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := closeAll(t, z); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// zipped packs files under a folder, for Windows.
func zipped(folder string, files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: folder + "/" + f.name, Method: zip.Deflate, Modified: at.UTC()}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := closeAll(z); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func closeAll(list ...io.Closer) error {
	for _, c := range list {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}
