package server

import (
	"fmt"
	"path"
	"path/filepath"
	"time"

	"modelgate/internal/controlplane/exports"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/settings"
	"modelgate/internal/storage/blob"
	"modelgate/internal/store/jobs"
)

// openExports creates the exports of the log, whose jobs start with Run.
func (s *Server) openExports(set *settings.Settings, node string) error {
	if s.Off[route.DataExports] {
		return nil
	}
	files, err := s.openFiles(&set.Blob, "exports")
	if err != nil {
		return err
	}
	s.exports = exports.New(exports.Options{
		DB: s.store, Files: files, Node: node,
		List: s.logs.List, Bodies: s.logs.ReadBodies, Flush: s.flushLog, Logger: s.Logger,
		Keep: time.Duration(set.Exports.KeepDays) * 24 * time.Hour, MaxSize: set.Exports.MaxSize.Or(0),
	})
	return nil
}

// exportFiles returns the files of exports, nil for none.
func (s *Server) exportFiles() exports.Files {
	if s.exports == nil {
		return nil
	}
	return s.exports
}

// openJobs creates the runner of jobs, which starts with Run.
func (s *Server) openJobs(set *settings.Settings) error {
	s.process = reqlog.NewID(time.Now()).String()
	if err := s.openExports(set, s.process); err != nil {
		return err
	}
	s.openWebhooks()
	sync := &toolservers.Sync{DB: s.store, Probe: s.probeAsGateway, Secrets: s.ring, Now: time.Now, Logger: s.Logger}
	kinds := append(s.kept.Kinds(), s.webhooks.Kind(), sync.Kind())
	if s.exports != nil {
		kinds = append(kinds, s.exports.Kind())
	}
	s.jobs = jobs.New(jobs.Options{DB: s.store, Node: s.process, Kinds: kinds, Logger: s.Logger,
		Ended: func(kind, state string, took time.Duration) {
			s.metrics.jobs.WithLabelValues(kind, state).Observe(took.Seconds())
		}})
	return nil
}

// openFiles returns the file store for one kind of file.
func (s *Server) openFiles(b *settings.Blob, kind string) (blob.Store, error) {
	if !b.S3.Configured() {
		return blob.Folder(filepath.Join(s.Data, "blob", kind)), nil
	}
	o := b.S3.Options()
	o.Prefix, o.Dial = path.Join(o.Prefix, kind), s.dial
	bucket, err := blob.OpenBucket(o)
	if err != nil {
		return nil, fmt.Errorf("blob.s3: %w", err)
	}
	return bucket, nil
}
