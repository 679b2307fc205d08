package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/storage/sqlite"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func auditRow(organisation string, n int) *store.Audit {
	return &store.Audit{
		ID: fmt.Sprintf("%s-%d", organisation, n), Organisation: organisation, Time: time.UnixMilli(1_700_000_000_000 + int64(n)), Method: "PUT",
		URI: "/v1/x", QueryParams: "{}", RequestHeaders: "{}", RequestBody: `{"n":1}`, UserID: "u", UserType: "user", Status: 200, Action: "update",
	}
}

func TestChainShowsWhatWasDoneToTheAuditLog(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", `UPDATE audit_logs SET host = host`, ""},
		{"a body", `UPDATE audit_logs SET request_body = '{}' WHERE id = 'a-3'`, "a: row 3 (a-3) was modified"},
		{"a time", `UPDATE audit_logs SET created_at = created_at + 1 WHERE id = 'a-1'`, "a: row 1 (a-1) was modified"},
		{"a status", `UPDATE audit_logs SET response_status_code = 403 WHERE id = 'a-5'`, "a: row 5 (a-5) was modified"},
		{"who", `UPDATE audit_logs SET user_id = 'v' WHERE id = 'a-2'`, "a: row 2 (a-2) was modified"},
		{"a field into its neighbour", `UPDATE audit_logs SET user_id = '', user_type = 'uuser' WHERE id = 'a-2'`, "a: row 2 (a-2) was modified"},
		{"a row is gone", `DELETE FROM audit_logs WHERE id = 'a-3'`, "a: rows 3 to 3 are missing"},
		{"the first is gone", `DELETE FROM audit_logs WHERE id = 'a-1'`, "a: rows 1 to 1 are missing"},
		{"the last is gone", `DELETE FROM audit_logs WHERE id = 'a-5'`, "a: rows 5 to 5 are missing"},
		{"all are gone", `DELETE FROM audit_logs WHERE organisation_id = 'a'`, "a: rows 1 to 5 are missing"},
		{"the last and the head", `DELETE FROM audit_logs WHERE id = 'a-5'; UPDATE audit_heads SET sequence = 4, hash = (SELECT hash FROM audit_logs WHERE id = 'a-4') WHERE organisation_id = 'a'`, ""},
		{"a row is added", `INSERT INTO audit_logs SELECT 'a-6', organisation_id, workspace_id, created_at, method, uri, query_params, request_headers, request_body, request_id, user_id, user_type, response_status_code, resource_type, resource_id, action, client_ip, host, 6, hash FROM audit_logs WHERE id = 'a-5'`,
			"a: row 6 (a-6) was modified"},
		{"a row before the first", `INSERT INTO audit_logs SELECT 'a-0', organisation_id, workspace_id, created_at, method, uri, query_params, request_headers, request_body, request_id, user_id, user_type, response_status_code, resource_type, resource_id, action, client_ip, host, 0, hash FROM audit_logs WHERE id = 'a-5'`,
			"a: there are 6 rows but only 5 are in the chain"},
		{"two change places", `UPDATE audit_logs SET sequence = 100 WHERE id = 'a-2'; UPDATE audit_logs SET sequence = 2 WHERE id = 'a-3'; UPDATE audit_logs SET sequence = 3 WHERE id = 'a-2'`,
			"a: row 2 (a-3) was modified"},
		{"a row of another organisation", `DELETE FROM audit_logs WHERE id = 'a-5'; UPDATE audit_logs SET organisation_id = 'a' WHERE id = 'b-5'`, "a: row 5 (b-5) was modified"},
		{"two organisations change places", `UPDATE audit_logs SET organisation_id = 'c' WHERE organisation_id = 'a'; UPDATE audit_heads SET organisation_id = 'c' WHERE organisation_id = 'a'`, "c: row 1 (a-1) was modified"},
		{"the head is gone", `DELETE FROM audit_heads WHERE organisation_id = 'a'`, "a: row 5 is the last row, but the head of the chain differs"},
		{"the head is another", `UPDATE audit_heads SET hash = 'x' WHERE organisation_id = 'a'`, "a: row 5 is the last row, but the head of the chain differs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := "file:" + t.TempDir() + "/modelgate.db"
			db := storetest.Open(t, path)
			for n := 1; n <= 5; n++ {
				for _, o := range []string{"a", "b"} {
					if err := db.AddAudit(t.Context(), auditRow(o, n)); err != nil {
						t.Fatal(err)
					}
				}
			}
			earlier := mustVerify(t, db, nil)
			mustExec(t, path, tt.text)
			if got := brokenChains(mustVerify(t, db, nil)); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("VerifyAudits: %q, want %q", got, tt.want)
			}
			var known []store.AuditHead
			for _, c := range earlier {
				known = append(known, c.AuditHead)
			}
			if got := brokenChains(mustVerify(t, db, known)); (got == "") != (tt.name == "nothing") {
				t.Errorf("VerifyAudits with earlier heads: %q", got)
			}
		})
	}
}

func TestChainCoversEveryColumnOfARow(t *testing.T) {
	path := "file:" + t.TempDir() + "/modelgate.db"
	db := storetest.Open(t, path)
	for n := 1; n <= 3; n++ {
		if err := db.AddAudit(t.Context(), auditRow("a", n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, column := range []string{
		"id", "workspace_id", "method", "uri", "query_params", "request_headers", "request_body", "request_id",
		"user_id", "user_type", "resource_type", "resource_id", "action", "client_ip", "host",
	} {
		mustExec(t, path, `UPDATE audit_logs SET `+column+` = `+column+` || '~' WHERE sequence = 2`)
		if got := brokenChains(mustVerify(t, db, nil)); !strings.Contains(got, "row 2 ") {
			t.Errorf("after a change of %s: VerifyAudits: %q, want row 2", column, got)
		}
		mustExec(t, path, `UPDATE audit_logs SET `+column+` = RTRIM(`+column+`, '~') WHERE sequence = 2`)
	}
	if got := brokenChains(mustVerify(t, db, nil)); got != "" {
		t.Errorf("VerifyAudits of the original rows: %q", got)
	}
}

func TestRowsOfTheAuditLogAreChainedForEveryWriter(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		nodes := []*store.DB{open(), open()}
		var writers sync.WaitGroup
		errs := make([]error, 24)
		for i := range errs {
			writers.Go(func() {
				db, a := nodes[i%2], auditRow(fmt.Sprint("o", i%3), i)
				if i%4 < 2 {
					errs[i] = db.AddAudit(context.Background(), a)
				} else {
					errs[i] = db.Update(context.Background(), a, func(*store.Tx) error { return nil })
				}
			})
		}
		writers.Wait()
		for i, err := range errs {
			if err != nil {
				t.Fatalf("writer %d: %v", i, err)
			}
		}
		list := mustVerify(t, nodes[0], nil)
		if got := brokenChains(list); got != "" || len(list) != 3 || list[0].Sequence != 8 {
			t.Errorf("VerifyAudits = %+v, %q", list, got)
		}
		if err := nodes[0].Update(t.Context(), auditRow("o0", 100), func(*store.Tx) error { return fmt.Errorf("no") }); err == nil {
			t.Fatal("a change that fails is kept")
		}
		if got := brokenChains(mustVerify(t, nodes[1], nil)); got != "" {
			t.Errorf("after a change that failed: %q", got)
		}
	})
}

func mustVerify(t *testing.T, db *store.DB, known []store.AuditHead) []store.AuditChain {
	t.Helper()
	list, err := db.VerifyAudits(t.Context(), known, nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func brokenChains(list []store.AuditChain) (all string) {
	for _, c := range list {
		if c.Broken != "" {
			all += c.Organisation + ": " + c.Broken + "\n"
		}
	}
	return all
}

func mustExec(t *testing.T, path, text string) {
	t.Helper()
	file, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}
