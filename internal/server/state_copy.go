package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/store/publication"
)

// copyName is the file in the data folder with the last good state of a remote
// database.
const copyName = "state.sealed"

// stateCopy is the content of the file.
type stateCopy struct {
	Database string // name of the database
	Shape    string // of the state as its writer knows it; see shapeOf
	State    publication.State
}

// stateWriter passes the latest state to the goroutine that writes the copy.
type stateWriter struct{ latest chan *publication.State } // holds one

func newCopies() stateWriter { return stateWriter{make(chan *publication.State, 1)} }

// put replaces a state that was not written yet. It must be called by one goroutine
// only.
func (c stateWriter) put(p *publication.State) {
	select {
	case <-c.latest:
	default:
	}
	c.latest <- p
}

// keepsCopy reports whether the last good state is kept on disk: only of a remote
// database, because an SQLite file is on the same disk, and only sealed, because it
// contains configs and hashes of keys.
func (s *Server) keepsCopy() bool { return s.box != nil && !s.Database.Empty() && s.store.Remote() }

// writeStateCopies writes the last good state to disk until ctx ends, using at most a
// tenth of the time.
func (s *Server) writeStateCopies(ctx context.Context) {
	if !s.keepsCopy() {
		return
	}
	for {
		select {
		case <-ctx.Done():
			select {
			case p := <-s.copy.latest:
				s.writeCopy(p)
			default:
			}
			return
		case p := <-s.copy.latest:
			began := time.Now()
			s.writeCopy(p)
			pause(ctx, 9*time.Since(began))
		}
	}
}

func (s *Server) writeCopy(p *publication.State) {
	if err := writeCopy(filepath.Join(s.Data, copyName), s.box, stateCopy{s.store.Name(), stateShape, *p}); err != nil {
		s.Logger.Error("state copy not written; the next start needs the database", "err", err.Error())
	}
}

// writeCopy replaces the file atomically.
func writeCopy(path string, box *secret.Box, k stateCopy) error {
	var text bytes.Buffer
	packed, err := gzip.NewWriterLevel(&text, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := gob.NewEncoder(packed).Encode(k); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(box.Seal(secret.New(text.String()))), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// readCopy returns the saved state of a database.
func readCopy(path string, box *secret.Box, database string) (*publication.State, error) {
	sealed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("a copy of its state does not exist yet")
	}
	if err != nil {
		return nil, err
	}
	opened, err := box.Open(string(sealed))
	if err != nil {
		return nil, fmt.Errorf("the copy of its state in %s: %w", path, err)
	}
	packed, err := gzip.NewReader(bytes.NewReader([]byte(opened.Reveal())))
	if err != nil {
		return nil, fmt.Errorf("the copy of its state in %s is damaged: %w", path, err)
	}
	var k stateCopy
	if err := gob.NewDecoder(packed).Decode(&k); err != nil {
		return nil, fmt.Errorf("the copy of its state in %s is damaged: %w", path, err)
	}
	if k.Shape != stateShape {
		return nil, fmt.Errorf("the copy of its state in %s is from another version of modelgate", path)
	}
	if k.Database != database {
		return nil, fmt.Errorf("the copy in %s is of another database", path)
	}
	return &k.State, nil
}
