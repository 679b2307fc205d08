package transfer

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/logstore"
	"modelgate/internal/storage/tabledata"
)

// A backup is a ZIP archive, so that a cut file is noticed at once. Its members are compressed
// with Zstandard: tables, the segments of the ledger and stored files. The last member lists
// all others with their checksums.
const (
	listName   = "backup.json"
	ledgerPart = "ledger/"
	filesPart  = "files/"

	// format is the version of backups.
	format = 1
)

// list is the content of the last member.
type list struct {
	Format    int       `json:"format"`
	Program   string    `json:"program"` // version of modelgate
	Time      time.Time `json:"time"`    // everything until then is in the backup
	Schema    int       `json:"schema"`  // migrations of the control plane's tables
	LogFormat int       `json:"log_format"`
	Members   []member  `json:"members"`
}

// member is a member of the archive.
type member struct {
	Name   string           `json:"name"`
	Bytes  int64            `json:"bytes"`
	SHA256 string           `json:"sha256"`
	Table  *tabledata.Table `json:"table,omitempty"` // nil for files
	Sums   *tabledata.Sums  `json:"sums,omitempty"`
}

// Summary describes a backup.
type Summary struct {
	Program string
	Time    time.Time
	Tables  []Total
	Files   int    // segments and stored files
	Bytes   int64  // before compression
	Used    string // what a dry run of a restore found in the target, empty if nothing
}

// summary describes the members.
func (l *list) summary() Summary {
	s := Summary{Program: l.Program, Time: l.Time}
	for _, m := range l.Members {
		s.Bytes += m.Bytes
		if m.Table == nil {
			s.Files++
		} else {
			s.Tables = append(s.Tables, Total{m.Name, m.Sums})
		}
	}
	return s
}

// copyTries is how often a copy of the ledger is begun.
const copyTries = 5

// Write writes a backup of a place, whose gateways may run. Program is the version of this
// program.
func Write(ctx context.Context, from Place, program string, w io.Writer, progress Progress) (s Summary, err error) {
	var segments *ledger.Copy
	var snap *snapshot
	for try := 1; ; try++ {
		if segments, snap, err = openBoth(ctx, from); err == nil {
			break
		}
		if try == copyTries || !errors.Is(err, ledger.ErrSegmentsGone) {
			return s, err
		}
	}
	defer func() { err = errors.Join(err, snap.close(), segments.Close()) }()
	b := newArchive(w)
	b.list = list{Format: format, Program: program, Time: time.Now().UTC(), Schema: snap.version, LogFormat: logstore.Format}
	for _, segment := range segments.Segments() {
		if err := b.addFile(ledgerPart+segment.Name, segment.Reader()); err != nil {
			return s, err
		}
	}
	for _, t := range snap.control {
		if err := b.addTable(ctx, controlPart, t, snap.controlRows, progress); err != nil {
			return s, err
		}
	}
	for _, t := range snap.log {
		if err := b.addTable(ctx, logPart, t, snap.logRows, progress); err != nil {
			return s, err
		}
	}
	if err := b.addFolder(filepath.Join(from.Data, "blob")); err != nil {
		return s, err
	}
	return b.list.summary(), b.close()
}

// openBoth begins a copy of the ledger around snapshots of the databases.
func openBoth(ctx context.Context, from Place) (*ledger.Copy, *snapshot, error) {
	segments, err := ledger.BeginCopy(filepath.Join(from.Data, "ledger"))
	if err != nil {
		return nil, nil, err
	}
	snap, err := openSnapshot(ctx, from, tabledata.Snapshot)
	if err != nil {
		return nil, nil, errors.Join(err, segments.Close())
	}
	if err := segments.End(); err != nil {
		return nil, nil, errors.Join(err, snap.close(), segments.Close())
	}
	return segments, snap, nil
}

// archive writes a backup.
type archive struct {
	zip  *zip.Writer
	list list
	buf  []byte
}

func newArchive(w io.Writer) *archive {
	b := &archive{zip: zip.NewWriter(w), buf: make([]byte, 256<<10)}
	b.zip.RegisterCompressor(zstd.ZipMethodWinZip, zstd.ZipCompressor(
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true)))
	return b
}

// begin begins a member, whose content is also written to sum.
func (b *archive) begin(name string, sum hash.Hash) (io.Writer, error) {
	w, err := b.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zstd.ZipMethodWinZip, Modified: b.list.Time})
	if err != nil {
		return nil, err
	}
	return io.MultiWriter(w, sum), nil
}

// addFile adds the content of a file.
func (b *archive) addFile(name string, r io.Reader) error {
	sum := sha256.New()
	w, err := b.begin(name, sum)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, b.buf)
	if err != nil {
		return fmt.Errorf("copying %s: %w", name, err)
	}
	b.list.Members = append(b.list.Members, member{Name: name, Bytes: n, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// counter counts bytes.
type counter int64

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// addTable adds the rows of a table.
func (b *archive) addTable(ctx context.Context, part string, t tabledata.Table, from source, progress Progress) error {
	name, sum := part+t.Name, sha256.New()
	w, err := b.begin(name, sum)
	if err != nil {
		return err
	}
	sums := tabledata.NewSums(t, summed...)
	rows := tabledata.Splitter{Columns: len(t.Columns), Row: func(fields []byte) error {
		if sums.Add(fields); sums.Rows%progressRows == 0 {
			progress(name, sums.Rows)
		}
		return nil
	}}
	var size counter
	if err := from.Write(ctx, t, tabledata.Unordered, io.MultiWriter(w, &rows, &size)); err != nil {
		return err
	}
	if err := rows.End(); err != nil {
		return fmt.Errorf("table %s: %w", name, err)
	}
	b.list.Members = append(b.list.Members, member{name, int64(size), hex.EncodeToString(sum.Sum(nil)), &t, sums})
	return nil
}

// addFolder adds the files of a folder, which are never changed but may be deleted while it
// reads. A missing folder has none.
func (b *archive) addFolder(dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		return b.addFile(path.Join(filesPart, name), f)
	})
}

// close adds the list and ends the archive.
func (b *archive) close() error {
	w, err := b.zip.Create(listName)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(w).Encode(&b.list); err != nil {
		return err
	}
	return b.zip.Close()
}
