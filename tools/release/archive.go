package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// entry is a file in a package.
type entry struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// tarball returns the files as npm reads them, below the folder package.
func tarball(entries []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: "package/" + e.name, Mode: int64(e.mode), Size: int64(len(e.content)), ModTime: at, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// zipped returns the files as a zip archive, which a wheel is.
func zipped(entries []entry, at time.Time) ([]byte, error) {
	if at.Year() < 1980 { // the first year of zip archives
		at = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(e.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// write writes a file of the release.
func (r *release) write(name string, content []byte, err error) error {
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}
