package main

import (
	"strings"
	"testing"
	"time"

	"modelgate/internal/store"
)

func TestJobsAreListedCancelledAndRetried(t *testing.T) {
	data, now := t.TempDir(), time.Now()
	db, err := store.Open(t.Context(), "file:"+data+"/modelgate.db", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), store.OperatorAudit("", "test", nil), func(tx *store.Tx) error {
		for _, id := range []string{"first", "second"} {
			j := store.Job{ID: id, Kind: "other", Subject: id, Organisation: store.DefaultOrganisation, CreatedAt: now, NextAt: now}
			if err := tx.AddJob(t.Context(), j); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	job := func(id string) store.Job {
		j, err := db.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	was := job("second")
	dead := was
	dead.State, dead.Failure, dead.Tries = store.JobDead, "the bucket is full", 5
	if moved, err := db.MoveJob(t.Context(), was, dead, nil); !moved || err != nil {
		t.Fatal(moved, err)
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"list", 0, "first"},
		{"list --state dead", 0, "the bucket is full"},
		{"list --kind none", 0, "LAST ERROR"},
		{"show second", 0, "the bucket is full"},
		{"show none", 1, "not found"},
		{"cancel first", 0, "cancelled first"},
		{"cancel first", 1, "in the state cancelled"},
		{"retry first", 1, "in the state cancelled"},
		{"retry second", 0, "queued second"},
		{"cancel none", 1, "not found"},
		{"pause first", 2, "use cancel, list, retry or show"},
	} {
		args := append([]string{"jobs"}, strings.Fields(tt.args)...)
		if tt.code != 2 {
			args = append(args[:2:2], append([]string{"--data", data}, args[2:]...)...)
		}
		code, out, errs := invoke(t, nil, "", args...)
		if code != tt.code || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s: exit %d, %q %q; want %d and %q", tt.args, code, out, errs, tt.code, tt.want)
		}
	}
	if a, b := job("first"), job("second"); a.State != store.JobCancelled || b.State != store.JobQueued || b.Tries != 0 {
		t.Errorf("then %+v and %+v", a, b)
	}
	audits, _, err := db.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, ResourceType: "job", To: now.Add(time.Hour)}, store.Page{Size: 10})
	if err != nil || len(audits) != 2 {
		t.Errorf("%d audit rows of jobs, %v; want 2", len(audits), err)
	}
}
