//go:build !js

package report

import (
	"fmt"
	"os"
	"path/filepath"
)

// Write puts report.json, report.html and loss.svg into the folder dir, which it makes if need be; other files there
// are left alone. Nothing is replaced before all three are safely on the disk, and report.json comes last: who sees it
// sees the others.
func (r Report) Write(dir string) (err error) {
	text, err := r.JSON()
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	curve, err := r.lossSVG()
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	page, err := r.HTML()
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("write report: cannot make the folder: %w", err)
	}
	files := []struct {
		name string
		data []byte
		temp string
	}{{name: "loss.svg", data: curve}, {name: "report.html", data: page}, {name: "report.json", data: text}}
	defer func() {
		for _, f := range files {
			if f.temp != "" {
				os.Remove(f.temp) // gone already if all went well
			}
		}
	}()
	for i := range files {
		f := &files[i]
		if f.temp, err = writeTemp(dir, f.name, f.data); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	for _, f := range files {
		if err := os.Rename(f.temp, filepath.Join(dir, f.name)); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}

// writeTemp writes data to a new file in dir and waits for the disk. The file's path is returned also with an error.
func writeTemp(dir, name string, data []byte) (path string, err error) {
	f, err := os.CreateTemp(dir, ".shoal-*-"+name)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return f.Name(), err
}
