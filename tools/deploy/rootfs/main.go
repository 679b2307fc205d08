// Command rootfs writes the files of a container image as a tar archive to standard output.
//
// It guarantees that the same binary and the same time give the same bytes: owners, modes and
// the order are its own, and the certificates come from the Go module that go.sum names. It
// does not build the program or the image; tools/image.sh does.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// owner is the user and the group that the gateway runs as. Its name would need an
// /etc/passwd; a number also lets Kubernetes see that it is not root.
const owner = 65532

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rootfs:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: rootfs BINARY SECONDS; the seconds since 1970 are the time of every file")
	}
	program, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	for _, f := range []struct {
		name    string
		mode    int64
		owner   int
		content []byte
	}{
		{"data/", 0o700, owner, nil},
		{"data/blob/", 0o700, owner, nil}, // which may be a volume that several nodes share
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, authorities()},
		{"tmp/", 0o1777, 0, nil}, // a provider's tool may want it; SQLite and modules do
		{"usr/bin/modelgate", 0o755, 0, program},
	} {
		header := tar.Header{
			Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)),
			ModTime: time.Unix(seconds, 0), Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := w.Write(f.content); err != nil {
			return err
		}
	}
	return w.Close()
}

// authorities returns the certificates of Mozilla's list as PEM. It leaves out those that are
// trusted up to a date only, which a file cannot express.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer does not fail
		}
	}
	return text.Bytes()
}
