// Package bundle collects what helps others to help with a gateway, without its secrets.
//
// A bundle is a tar.gz of text files. It guarantees that no credential, header value, text of
// a prompt or guardrail, and no e-mail address is in it: settings and variables are kept by
// lists of what is harmless, and what remains is searched for every secret that the
// environment, the flags and the settings have, also in the usual encodings. Nothing is sent,
// except for the question to the admin listener of this machine.
package bundle

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"modelgate/internal/records/ledger"
	"modelgate/internal/server"
	"modelgate/internal/server/diagnosis"
	"modelgate/internal/storage/postgres"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/store"
)

// Options say what is collected.
type Options struct {
	Diagnosis diagnosis.Options
	Environ   []string // NAME=value
	HideHosts bool
}

// File is a file of a bundle.
type File struct {
	Name, About string
	Bytes       int // before compression
}

// part is a file with the function that returns its content. An error becomes the content.
type part struct {
	name, about string
	read        func(context.Context) ([]byte, error)
}

// partTime limits how long a part may take.
const partTime = 20 * time.Second

// Write writes a bundle and returns what is in it.
func Write(ctx context.Context, w io.Writer, o Options) (list []File, err error) {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	clean := newCleaner(o)
	for _, p := range o.parts() {
		limited, cancel := context.WithTimeout(ctx, partTime)
		text, err := p.read(limited)
		cancel()
		if err != nil {
			text = append(text, "not available: "+err.Error()+"\n"...)
		}
		text = clean.clean(text)
		h := &tar.Header{Name: "modelgate-support/" + p.name, Mode: 0o600, Size: int64(len(text)), ModTime: time.Now().Truncate(time.Second)}
		if err := archive.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := archive.Write(text); err != nil {
			return nil, err
		}
		list = append(list, File{p.name, p.about, len(text)})
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return list, compressed.Close()
}

// parts returns the files in the order of the bundle.
func (o Options) parts() []part {
	return []part{
		{"doctor.json", "what modelgate doctor finds", o.findings},
		{"version.json", "version and build, operating system, limits", o.version},
		{"settings.yaml", "structure of the settings; texts and secrets are replaced", o.redactedSettings},
		{"environment.txt", "names of variables; values only of harmless ones", func(context.Context) ([]byte, error) {
			return []byte(o.environment()), nil
		}},
		{"database.json", "migrations and number of rows of each table", o.database},
		{"jobs.json", "failed jobs: kinds and times", o.jobs},
		{"ledger.json", "segments and sums of the ledger", o.ledger},
		{"health.txt", "answers of a running gateway to /health and /ready", o.health},
		{"metrics.txt", "metrics of a running gateway, with memory and goroutines", o.metrics},
	}
}

func encode(v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return append(text, '\n'), err
}

func (o Options) findings(ctx context.Context) ([]byte, error) {
	return encode(diagnosis.Run(ctx, o.Diagnosis))
}

func (o Options) version(context.Context) ([]byte, error) {
	v := map[string]any{"version": o.Diagnosis.Server.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
		"processors": runtime.NumCPU(), "gomaxprocs": runtime.GOMAXPROCS(0), "memory_limit": debug.SetMemoryLimit(-1),
		"time": time.Now().UTC().Format(time.RFC3339)}
	if info, ok := debug.ReadBuildInfo(); ok {
		modules := make(map[string]string)
		for _, m := range info.Deps {
			modules[m.Path] = m.Version
		}
		v["modules"] = modules
		for _, s := range info.Settings {
			if strings.HasPrefix(s.Key, "vcs") || s.Key == "CGO_ENABLED" {
				v[s.Key] = s.Value
			}
		}
	}
	for name, path := range map[string]string{"kernel": "/proc/version", "cgroup_memory_max": "/sys/fs/cgroup/memory.max",
		"cgroup_cpu_max": "/sys/fs/cgroup/cpu.max", "limits": "/proc/self/limits"} {
		if text, err := os.ReadFile(path); err == nil {
			v[name] = strings.Split(strings.TrimSpace(string(text)), "\n")
		}
	}
	return encode(v)
}

// open opens the control plane's database for reading.
func (o Options) open(ctx context.Context) (*store.DB, bool, error) {
	s := &o.Diagnosis.Server
	dsn := server.DatabaseAddress(s.Data, s.Database)
	isPostgres := postgres.IsAddress(dsn)
	if isPostgres && o.Diagnosis.Offline {
		return nil, isPostgres, errOffline
	}
	db, err := store.Inspect(ctx, dsn, s.DatabaseOptions)
	return db, isPostgres, err
}

var errOffline = errors.New("--offline makes no connections")

func (o Options) database(ctx context.Context) ([]byte, error) {
	db, isPostgres, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	v := make(map[string]any)
	pending, err := db.Pending(ctx)
	if err != nil {
		v["error"] = err.Error()
	}
	v["pending_migrations"] = pending
	rows, err := store.CountRows(ctx, db.Reader, isPostgres)
	if err != nil {
		v["counting_error"] = db.ClientError(err).Error()
	}
	v["rows"] = rows
	if address, err := server.LogsAddress(o.Diagnosis.Server.LogsDatabase, o.Diagnosis.Server.Database); err == nil && address.Empty() {
		path := server.LogsOptions(o.Diagnosis.Server.Data, address, o.Diagnosis.Server.DatabaseOptions).Path
		if log, _, err := sqlite.Inspect(ctx, path); err == nil {
			defer log.Close()
			if v["log_rows"], err = store.CountRows(ctx, log, false); err != nil {
				v["log_error"] = err.Error()
			}
		}
	}
	return encode(v)
}

// failedJobs is the number of failed jobs in a bundle at most.
const failedJobs = 200

// code matches the code in front of the text of a failure.
var code = regexp.MustCompile(`\b(status )?[1-5][0-9]{2}\b|\b[a-z]+(_[a-z]+)+\b`)

func (o Options) jobs(ctx context.Context) ([]byte, error) {
	db, _, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	list, err := db.FailedJobs(ctx, failedJobs)
	if err != nil {
		return nil, db.ClientError(err)
	}
	out := make([]map[string]any, len(list))
	for i := range list {
		j := &list[i]
		out[i] = map[string]any{"id": j.ID, "kind": j.Kind, "state": j.State, "tries": j.Tries, "code": code.FindString(j.Failure),
			"created_at": j.CreatedAt.UTC(), "ended_at": j.EndedAt.UTC()}
	}
	return encode(out)
}

func (o Options) ledger(context.Context) ([]byte, error) {
	r, err := ledger.Verify(server.LedgerDir(o.Diagnosis.Server.Data))
	if err != nil {
		return nil, err
	}
	return encode(map[string]any{"segments": r.Segments, "sums": r.Sums, "running": r.Running, "unsettled": len(r.Unsettled)})
}

// Describe returns what is in a bundle, a line for each file.
func Describe(list []File) string {
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "%-16s %8d bytes  %s\n", f.Name, f.Bytes, f.About)
	}
	return b.String()
}
