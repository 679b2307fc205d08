package transfer

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/logstore"
	"modelgate/internal/storage/tabledata"
	"modelgate/internal/store"
)

// maxList is the limit of the list of a backup, in bytes.
const maxList = 256 << 20

// errNotBackup means that a file is not a complete backup.
var errNotBackup = errors.New("it is not a complete backup: the file is cut off, damaged or of another kind")

// backup is a backup that was verified.
type backup struct {
	list
	files map[string]*zip.File
}

// openBackup reads all of a backup and compares it with its checksums.
func openBackup(r io.ReaderAt, size int64) (*backup, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, errNotBackup
	}
	z.RegisterDecompressor(zstd.ZipMethodWinZip, zstd.ZipDecompressor(
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20)))
	b := &backup{files: make(map[string]*zip.File)}
	for _, f := range z.File {
		b.files[f.Name] = f
	}
	last := b.files[listName]
	if last == nil || len(b.files) != len(z.File) {
		return nil, errNotBackup
	}
	content, err := last.Open()
	if err != nil {
		return nil, errNotBackup
	}
	defer content.Close()
	if err := json.NewDecoder(io.LimitReader(content, maxList)).Decode(&b.list); err != nil {
		return nil, errNotBackup
	}
	return b, b.check()
}

// check verifies versions, names and checksums.
func (b *backup) check() error {
	known, err := store.Migrations()
	if err != nil {
		return err
	}
	if b.Format != format || b.Schema > len(known) || b.LogFormat > logstore.Format {
		return fmt.Errorf("it was made by modelgate %.40q, which has later formats than this program; use that version or a later one", b.Program)
	}
	if b.Schema < 1 || len(b.Members)+1 != len(b.files) {
		return errNotBackup
	}
	for _, m := range b.Members {
		if !fs.ValidPath(m.Name) || m.hasTable() != (m.Table != nil && m.Sums != nil) {
			return fmt.Errorf("its member %.80q has an invalid name", m.Name)
		}
		sum := sha256.New()
		if err := b.copy(m.Name, sum); err != nil || hex.EncodeToString(sum.Sum(nil)) != m.SHA256 {
			return fmt.Errorf("its member %s is damaged; use another backup", m.Name)
		}
	}
	return nil
}

// hasTable reports whether the name of a member is that of a table.
func (m member) hasTable() bool {
	return strings.HasPrefix(m.Name, controlPart) || strings.HasPrefix(m.Name, logPart)
}

// copy copies the content of a member.
func (b *backup) copy(name string, w io.Writer) error {
	f := b.files[name]
	if f == nil {
		return errNotBackup
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}

// part is the source of the tables whose names have a prefix.
type part struct {
	*backup
	prefix string
}

// Write implements source. Rows are in the order in which they were written.
func (p part) Write(_ context.Context, t tabledata.Table, _ tabledata.Order, w io.Writer) error {
	return p.copy(p.prefix+t.Name, w)
}

// contents returns the tables of the backup.
func (b *backup) contents() contents {
	c := contents{version: b.Schema, controlRows: part{b, controlPart}, logRows: part{b, logPart}}
	for _, m := range b.Members {
		switch {
		case strings.HasPrefix(m.Name, controlPart):
			c.control = append(c.control, *m.Table)
		case strings.HasPrefix(m.Name, logPart):
			c.log = append(c.log, *m.Table)
		}
	}
	return c
}

// RestoreOptions say what to do with the target.
type RestoreOptions struct {
	Overwrite bool // replace what is there
	DryRun    bool // verify the backup and the target, and change nothing
	Progress  Progress
}

// Restore replaces what a place has by a backup, which it verifies first. No gateway may use
// the place. If it fails once it has begun to write, the control plane's tables are still
// those of before, and it can be run again.
func Restore(ctx context.Context, r io.ReaderAt, size int64, to Place, o RestoreOptions) (s Summary, err error) {
	b, err := openBackup(r, size)
	if err != nil {
		return s, err
	}
	from := b.contents()
	if err := checkTables(ctx, from); err != nil {
		return s, err
	}
	used, err := inspect(ctx, to)
	if err != nil {
		return s, err
	}
	if used != "" && !o.Overwrite && !o.DryRun {
		return s, fmt.Errorf("%s; to replace it, add --force", used)
	}
	if err := b.checkSegments(filepath.Join(to.Data, "ledger")); err != nil || o.DryRun {
		s = b.summary()
		s.Used = used
		return s, err
	}
	if err := emptyLog(ctx, to.Log); err != nil {
		return s, err
	}
	if _, err := fillLog(ctx, from, to, o.Progress); err != nil {
		return s, err
	}
	if err := b.extract(to.Data); err != nil {
		return s, err
	}
	_, err = fillControl(ctx, from, to, o.Progress)
	return b.summary(), err
}

// checkTables returns an error unless the tables are complete and known.
func checkTables(ctx context.Context, from contents) error {
	dir, err := os.MkdirTemp("", "modelgate-schema")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := newPristine(ctx, dir, from.version)
	if err != nil {
		return err
	}
	defer p.Close()
	known, err := logTables(ctx, dir)
	if err != nil {
		return err
	}
	if _, err := pick(p.tables, from.control); err != nil {
		return errNotBackup
	}
	for _, t := range from.control {
		if err := t.Check(p.tables); err != nil {
			return err
		}
	}
	for _, t := range from.log {
		if err := t.Check(known); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		tables []tabledata.Table
		rows   source
	}{{from.control, from.controlRows}, {from.log, from.logRows}} {
		for _, t := range part.tables {
			err := eachRow(ctx, part.rows, t, tabledata.Unordered, func(fields []byte) error { _, err := t.Values(fields); return err })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// emptyLog removes a log.
func emptyLog(ctx context.Context, o logstore.Options) error {
	if o.URL == "" {
		return errors.Join(remove(o.Path), remove(o.Path+"-wal"), remove(o.Path+"-shm"))
	}
	db, err := openLog(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(db.Exec(ctx, `DROP SCHEMA IF EXISTS `+logSchema+` CASCADE`), db.Close())
}

// checkSegments returns an error if a folder of a ledger has a segment with the name, but
// not the identity, of one in the backup.
func (b *backup) checkSegments(dir string) error {
	for _, m := range b.Members {
		name, ok := strings.CutPrefix(m.Name, ledgerPart)
		if !ok || !exists(filepath.Join(dir, name)) {
			continue
		}
		head := headWriter{}
		if err := b.copy(m.Name, &head); err != nil {
			return err
		}
		if same, err := ledger.IsCopy(filepath.Join(dir, name), head.first); err != nil || !same {
			return errors.Join(err, fmt.Errorf("the data folder has the ledger of another gateway (segment %s); use an empty data folder", name))
		}
	}
	return nil
}

// headWriter keeps the first bytes.
type headWriter struct{ first []byte }

// Write implements io.Writer.
func (w *headWriter) Write(p []byte) (int, error) {
	const size = 64
	w.first = append(w.first, p[:min(len(p), size-min(len(w.first), size))]...)
	return len(p), nil
}

// extract writes the ledger and the stored files into a data folder. What a segment of the
// folder has more than its copy stays, and so do segments that were begun later: their
// records are applied and counted again, as far as the restored databases lack them.
func (b *backup) extract(data string) error {
	segments := filepath.Join(data, "ledger")
	for _, m := range b.Members {
		name := m.Name
		if rest, ok := strings.CutPrefix(name, ledgerPart); ok {
			if info, err := os.Stat(filepath.Join(segments, rest)); err == nil && info.Size() >= m.Bytes {
				continue
			}
			if err := b.extractFile(m, segments, rest); err != nil {
				return err
			}
		} else if rest, ok := strings.CutPrefix(name, filesPart); ok {
			if err := b.extractFile(m, filepath.Join(data, "blob"), rest); err != nil {
				return err
			}
		}
	}
	return ledger.Unmark(segments)
}

// extractFile writes a member to a file in a folder, completely or not at all.
func (b *backup) extractFile(m member, dir, name string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	fresh := name + ".new"
	f, err := root.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(b.copy(m.Name, f), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return root.Rename(fresh, name)
}
