package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"modelgate/internal/server"
	"modelgate/internal/settings"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// firstRow waits until the audit log begins with a row.
func firstRow(t *testing.T, db *store.DB, want int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		list, err := db.AuditsAfter(t.Context(), store.DefaultOrganisation, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 && list[0].Sequence == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the audit log begins with %+v, want row %d", list, want)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// noteDaysAgo adds a row that is this many days old.
func noteDaysAgo(t *testing.T, db *store.DB, days ...int) {
	t.Helper()
	for _, n := range days {
		a := &store.Audit{
			ID: fmt.Sprint("day-", n), Organisation: store.DefaultOrganisation, Time: time.Now().Add(-time.Duration(n) * 24 * time.Hour), Method: "PUT",
			URI: "/v1/x", QueryParams: "{}", RequestHeaders: "{}", RequestBody: "{}", Status: 200,
		}
		if err := db.AddAudit(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAuditLogIsTrimmedToItsRetention(t *testing.T) {
	t.Parallel()
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		noteDaysAgo(t, db, 900, 402, 398, 20, 10, 5)
		for _, step := range []struct {
			text  string
			first int64
		}{{"{}", 3}, {"audit: {retention: {days: 15}}", 5}} {
			stop := runFor(t, t.TempDir(), dsn, step.text)
			firstRow(t, db, step.first)
			stop()
		}
		chains, err := db.VerifyAudits(t.Context(), nil, nil)
		if err != nil || len(chains) != 1 || chains[0].Broken != "" || chains[0].Removed.Sequence != 4 {
			t.Errorf("VerifyAudits = %+v, %v", chains, err)
		}
		list, err := db.AuditsAfter(t.Context(), store.DefaultOrganisation, 6, 10)
		if err != nil || len(list) == 0 || list[0].UserType != "gateway" || list[0].Action != "prune" || list[0].ResourceType != "audit_log" {
			t.Errorf("the removal is recorded as %+v, %v", list, err)
		}
	})
}

// The removal is one transaction, so that a removal of what was not sent would
// leave the third row as the first.
func TestAuditRowsThatWereNotSentStay(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	db := storetest.Open(t, "file:"+data+"/modelgate.db")
	noteDaysAgo(t, db, 900, 800, 1)
	if err := db.MarkAuditsSent(t.Context(), "webhook", store.AuditHead{Organisation: store.DefaultOrganisation, Sequence: 1}); err != nil {
		t.Fatal(err)
	}
	hook := httptest.NewServer(http.NotFoundHandler())
	defer hook.Close()
	defer runFor(t, data, "", "audit: {webhook: {url: \""+hook.URL+"\", secret: \"${AUDIT_KEY}\"}}\n")()
	firstRow(t, db, 2)
}

func TestRetentionOfTheAuditLogHasDefaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		set   settings.AuditRetention
		age   time.Duration
		bytes int64
		text  string
	}{
		{settings.AuditRetention{}, 400 * 24 * time.Hour, 1 << 30, "400 days, at most 1024 MB"},
		{settings.AuditRetention{Days: -1, Bytes: 64 << 20}, 0, 64 << 20, "all days, at most 64 MB"},
	} {
		r := tt.set.Effective()
		if p := server.AuditPruning(r, nil); p.Age != tt.age || p.Bytes != tt.bytes || r.String() != tt.text {
			t.Errorf("AuditPruning(%+v) = %+v, %s", tt.set, p, r)
		}
	}
}
