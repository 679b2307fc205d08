package diagnosis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modelgate/internal/base/oserr"
	"modelgate/internal/records/ledger"
	"modelgate/internal/server"
)

// checkFolder checks the owner of the data folder and that it can be written to.
func (in *input) checkFolder(context.Context) []Finding {
	data := in.Server.Data
	change, err := server.CheckFolder(data)
	switch _, missing := os.Stat(data); {
	case err != nil:
		return one(Failed, "", "%v", err)
	case errors.Is(missing, fs.ErrNotExist):
		parent := existing(data)
		if err := checkWritable(parent); err != nil {
			return one(Failed, "create the data folder as the user of the gateway, or name another one with --data",
				"%s does not exist and cannot be created: %v", data, oserr.File(err))
		}
		return one(Note, "", "%s does not exist yet; the first start creates it", data)
	}
	if err := checkWritable(data); err != nil {
		return one(Failed, "run the gateway as the owner of the folder, or mount its file system with the right to write",
			"%s cannot be written to: %v", data, oserr.File(err))
	}
	if change != "" {
		return one(Warning, "chown it to the user of the gateway, and chmod 700", "%s: %s", data, change)
	}
	return one(OK, "", "%s belongs to the gateway and can be written to", data)
}

// existing returns the nearest folder of a path that exists.
func existing(path string) string {
	for path, _ = filepath.Abs(path); ; path = filepath.Dir(path) {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
	}
}

// Room on a disk below which a gateway soon stops serving.
const (
	leastSpace  = 64 << 20
	littleSpace = 1 << 30
	littleShare = 50 // a file system with less than one part in this many
)

// checkDisk checks the room on the file system of the data folder, and its kind.
func (in *input) checkDisk(context.Context) (list []Finding) {
	d, err := diskOf(existing(in.Server.Data))
	if err != nil {
		return one(Note, "", "room on the disk of the data folder is unknown: %v", oserr.File(err))
	}
	const fix = "make room, or set smaller limits with logs.retention, audit.retention and ledger.max_size"
	text := fmt.Sprintf("%d MB of %d MB are free", d.free>>20, d.total>>20)
	level := OK
	switch {
	case d.total > 0 && d.free < leastSpace, d.files > 0 && d.freeFiles == 0:
		level = Failed
	case d.free < littleSpace && d.free < d.total/2 || d.free < d.total/littleShare || d.freeFiles < d.files/littleShare:
		level = Warning
	}
	if d.files > 0 {
		text += fmt.Sprintf(", and %d of %d inodes", d.freeFiles, d.files)
	}
	list = one(level, "", "%s", text)
	if level != OK {
		list[0].Fix = fix
	}
	switch {
	case d.kind == "tmpfs":
		list = append(list, one(Warning, "name a folder on a disk with --data",
			"the data folder is in memory (tmpfs): a restart of the machine loses it")...)
	case d.network:
		list = append(list, one(Warning, "put the data folder on a local disk, or the databases into PostgreSQL",
			"the data folder is on a network file system (%s), whose locks SQLite and the ledger cannot rely on", d.kind)...)
	}
	return list
}

// checkFiles checks that others cannot read the files with keys and databases.
func (in *input) checkFiles(context.Context) (list []Finding) {
	const fix = "chmod go-rwx"
	for _, path := range in.KeyFiles {
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			list = append(list, one(Warning, fix+" "+path, "other users may use the key in %s (mode %04o)", path, info.Mode().Perm())...)
		}
	}
	info, err := os.Stat(in.Server.Data)
	entries, readErr := os.ReadDir(in.Server.Data)
	if err == nil && readErr == nil && info.Mode().Perm()&0o007 != 0 { // otherwise nobody else gets to them
		var open []string
		for _, e := range entries {
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o007 != 0 {
				open = append(open, e.Name())
			}
		}
		if len(open) > 0 {
			list = append(list, one(Warning, fix+" "+in.Server.Data, "other users may read %s in the data folder", strings.Join(open, ", "))...)
		}
	}
	if list == nil {
		return one(OK, "", "only the gateway's user can read its keys and databases")
	}
	return list
}

// fewFiles is the number of open files below which a busy gateway fails: a request has two
// connections, and up to a thousand at a time are usual.
const fewFiles = 4096

func (in *input) checkOpenFiles(context.Context) []Finding {
	n := openFileLimit()
	switch {
	case n == 0:
		return one(Note, "", "the limit of open files is unknown")
	case n < fewFiles:
		return one(Warning, "raise it, for example with LimitNOFILE=65536 in the systemd unit",
			"a process may have %d open files, and each request needs two", n)
	}
	return one(OK, "", "a process may have %d open files", n)
}

// soon is how long before its end a certificate is reported.
const soon = 21 * 24 * time.Hour

// checkTLSFiles checks the gateway's own certificate.
func (in *input) checkTLSFiles(context.Context) []Finding {
	files := in.settings.Listener.TLS
	if !files.Enabled() {
		return one(Note, "", "the API is served without TLS (listener.tls)")
	}
	pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if err != nil || pair.Leaf == nil {
		return one(Failed, "name a certificate and its own key, in PEM, in listener.tls",
			"%s and %s cannot be used together", files.Certificate, files.Key)
	}
	if u, err := url.Parse(in.publicURL()); err == nil && u.Scheme == "https" && u.Hostname() != "" {
		if pair.Leaf.VerifyHostname(u.Hostname()) != nil {
			return one(Warning, "use a certificate for that host, unless a proxy in front of the gateway has one",
				"the certificate is not for %s, the host of public_url", u.Hostname())
		}
	}
	return plain(certificate(pair.Leaf, time.Now()))
}

// certificate describes the validity of a certificate.
func certificate(c *x509.Certificate, now time.Time) (Level, string, string) {
	const fix = "renew the certificate"
	end := c.NotAfter.UTC().Format(time.DateOnly)
	switch left := c.NotAfter.Sub(now); {
	case left < 0:
		return Failed, fix, "the certificate has expired on " + end
	case now.Before(c.NotBefore):
		return Failed, "check the clock, and the certificate", "the certificate is valid from " + c.NotBefore.UTC().Format(time.DateOnly)
	case left < soon:
		return Warning, fix, "the certificate ends on " + end
	}
	return OK, "", "the certificate is valid until " + end
}

// plain returns a list of one finding with a text that is not a format.
func plain(level Level, fix, text string) []Finding { return one(level, fix, "%s", text) }

// publicURL returns the address that users have.
func (in *input) publicURL() string {
	if in.Server.PublicURL != "" {
		return in.Server.PublicURL
	}
	return in.settings.PublicURL
}

// checkLedger reads the ledger.
func (in *input) checkLedger(context.Context) []Finding {
	r, err := ledger.Verify(in.ledgerFolder())
	if errors.Is(err, fs.ErrNotExist) {
		return one(Note, "", "it does not exist yet; the first start creates it")
	}
	if err != nil {
		return one(Failed, "check the folder ledger in the data folder, and its owner", "it cannot be read: %v", oserr.File(err))
	}
	var used, aside, waiting, damaged int
	var bytes int64
	for _, s := range r.Segments {
		bytes += s.Bytes
		waiting += s.Waiting
		switch {
		case s.Quarantined:
			aside++
		case s.Problem != "" || s.Damaged > 0:
			damaged++
		case s.InUse:
			used++
		}
	}
	text := fmt.Sprintf("%d segments of %d MB: %d in use, %d quarantined; %d entries are not applied to the log",
		len(r.Segments), bytes>>20, used, aside, waiting)
	switch {
	case damaged > 0:
		return one(Warning, "the next start quarantines them; check the disk", "%s; %d segments are damaged", text, damaged)
	case aside > 0:
		return one(Warning, "keep them until `modelgate ledger verify` has shown what they have, then delete them", "%s", text)
	case len(r.Unsettled) > 0:
		return one(Note, "", "%s; %d attempts have no end, and the next start estimates them", text, len(r.Unsettled))
	}
	return one(OK, "", "%s", text)
}
