package store_test

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

const (
	ours   = store.DefaultOrganisation
	oneDay = 24 * time.Hour
)

// newest is the time of the last row of addDays.
var newest = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// addDays adds n rows of an organisation, one a day until newest.
func addDays(t *testing.T, db *store.DB, organisation string, n int) {
	t.Helper()
	for i := 1; i <= n; i++ {
		a := auditRow(organisation, i)
		a.Time = newest.Add(-time.Duration(n-i) * oneDay)
		if err := db.AddAudit(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
}

func mustPrune(t *testing.T, db *store.DB, p store.AuditPruning) store.AuditPruned {
	t.Helper()
	n, err := db.PruneAudits(t.Context(), p)
	if err != nil {
		t.Fatalf("PruneAudits: %v", err)
	}
	return n
}

func ring(t *testing.T, db *store.DB) *datakey.Keyring {
	t.Helper()
	box, err := secret.NewBox(secret.New("the master key of a test"))
	if err != nil {
		t.Fatal(err)
	}
	return datakey.New(db, box)
}

func sequences(t *testing.T, db *store.DB, organisation string) (list []int64) {
	t.Helper()
	found, err := db.AuditsAfter(t.Context(), organisation, 0, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range found {
		list = append(list, a.Sequence)
	}
	return list
}

func TestOldRowsOfTheAuditLogGoAndTheRestIsVerified(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		sign := ring(t, db)
		addDays(t, db, ours, 10)
		early, err := db.VerifyAudits(t.Context(), nil, sign)
		if err != nil {
			t.Fatal(err)
		}
		p := store.AuditPruning{Age: 3 * oneDay, Now: newest, Signer: sign, DryRun: true}
		if n := mustPrune(t, db, p); n.Rows != 6 || len(sequences(t, db, ours)) != 10 {
			t.Errorf("a dry run: %+v, left %v", n, sequences(t, db, ours))
		}
		p.DryRun = false
		// The cut is at midnight UTC: the row of three days before stays.
		if n := mustPrune(t, db, p); n.Rows != 6 || n.Bytes < 6*600 {
			t.Errorf("PruneAudits = %+v", n)
		}
		if got := sequences(t, db, ours); !slices.Equal(got, []int64{7, 8, 9, 10, 11}) {
			t.Errorf("rows %v are left", got)
		}
		if n := mustPrune(t, db, p); n.Rows != 0 {
			t.Errorf("pruning again removed %d rows", n.Rows)
		}
		check := func(list []store.AuditChain, rows int64, removed string) {
			t.Helper()
			if len(list) != 1 || list[0].Broken != "" || list[0].Sequence != rows || list[0].Removed == nil || !strings.HasPrefix(list[0].Removed.String(), removed) {
				t.Errorf("VerifyAudits = %+v, removed %v", list, list[0].Removed)
			}
		}
		known := []store.AuditHead{early[0].AuditHead}
		for _, k := range [][]store.AuditHead{nil, known} {
			list, err := db.VerifyAudits(t.Context(), k, sign)
			if err != nil {
				t.Fatal(err)
			}
			check(list, 11, "rows 1 to 6, up to 2026-11-16T12:00:00Z, were removed (days; signature valid)")
		}
		p.Now = newest.Add(1000 * oneDay) // all that there is, with the row of the first removal
		mustPrune(t, db, p)
		if got := sequences(t, db, ours); !slices.Equal(got, []int64{12}) {
			t.Errorf("rows %v are left", got)
		}
		list, err := db.VerifyAudits(t.Context(), known, sign)
		if err != nil {
			t.Fatal(err)
		}
		check(list, 12, "rows 1 to 11, up to ")
		if got := brokenChains(mustVerify(t, db, known)); !strings.Contains(got, "known row 10 was removed; to verify that the gateway removed it") {
			t.Errorf("without the master key: %q", got)
		}
	})
}

// Who writes to the database and has no master key is noticed.
func TestChainShowsWhatWasDoneToAPrunedAuditLog(t *testing.T) {
	const back = `; UPDATE audit_heads SET sequence = 10, hash = (SELECT hash FROM audit_logs WHERE sequence = 10)`
	forge := func(body string) func(*testing.T, *store.DB) {
		return func(t *testing.T, db *store.DB) {
			list, err := db.AuditsAfter(t.Context(), ours, 8, 1)
			if err != nil {
				t.Fatal(err)
			}
			a := auditRow(ours, 100)
			a.ResourceType, a.Action, a.UserType = "audit_log", "prune", "gateway"
			a.RequestBody = strings.ReplaceAll(body, "HASH", list[0].Hash)
			if err := db.AddAudit(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
	}
	signature := strings.Repeat("ab", 32)
	for _, tt := range []struct {
		name   string
		before func(*testing.T, *store.DB)
		text   string
		want   string
	}{
		{"nothing", nil, `UPDATE audit_logs SET host = host`, ""},
		{"the first that is left", nil, `DELETE FROM audit_logs WHERE sequence = 7`, "rows 7 to 7 are missing"},
		{"one in the middle", nil, `DELETE FROM audit_logs WHERE sequence = 9`, "rows 9 to 9 are missing"},
		{"the record of the removal", nil, `DELETE FROM audit_logs WHERE sequence = 11`, "rows 1 to 6 are missing"},
		{"that and the head", nil, `DELETE FROM audit_logs WHERE sequence = 11` + back, "rows 1 to 6 are missing"},
		{"all", nil, `DELETE FROM audit_logs`, "rows 1 to 11 are missing"},
		{"the body of one that is left", nil, `UPDATE audit_logs SET request_body = '{}' WHERE sequence = 9`, "row 9 ("},
		{"its body", nil, `UPDATE audit_logs SET request_body = '{}' WHERE sequence = 11`, "the removal of rows 1 to 0 is not signed"},
		{"no body", nil, `UPDATE audit_logs SET request_body = 'x' WHERE sequence = 11`, "rows 1 to 6 are missing"},
		{"a null", nil, `UPDATE audit_logs SET request_body = 'null' WHERE sequence = 11`, "the removal of rows 1 to 0 is not signed"},
		{"a row before", nil, `INSERT INTO audit_logs SELECT 'x', organisation_id, workspace_id, created_at, method, uri, query_params, request_headers, request_body, request_id, user_id, user_type, response_status_code, resource_type, resource_id, action, client_ip, host, 3, hash FROM audit_logs WHERE sequence = 8`,
			"there are 6 rows but only 5 are in the chain"},
		{"a forged removal", forge(`{"sequence":9,"hash":"HASH","rows":3,"reason":"days"}`), `DELETE FROM audit_logs WHERE sequence <= 9`, "the removal of rows 1 to 9 is not signed"},
		{"one with a signature", forge(`{"sequence":9,"hash":"HASH","rows":3,"reason":"days","signature":"` + signature + `"}`), `DELETE FROM audit_logs WHERE sequence <= 9`, "the removal of rows 1 to 9 has a wrong signature"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := "file:" + t.TempDir() + "/modelgate.db"
			db := storetest.Open(t, path)
			sign := ring(t, db)
			addDays(t, db, ours, 10)
			p := store.AuditPruning{Age: 3 * oneDay, Now: newest, Signer: sign}
			mustPrune(t, db, p)
			if tt.before != nil {
				tt.before(t, db)
			}
			mustExec(t, path, tt.text)
			list, err := db.VerifyAudits(t.Context(), nil, sign)
			if err != nil {
				t.Fatal(err)
			}
			if got := brokenChains(list); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("VerifyAudits: %q, want %q", got, tt.want)
			}
			if tt.want == "" {
				return
			}
			// What is broken stays as it is, until an operator decides.
			left := sequences(t, db, ours)
			p.Now = newest.Add(100 * oneDay)
			if _, err := db.PruneAudits(t.Context(), p); len(left) > 0 && err == nil || !slices.Equal(sequences(t, db, ours), left) {
				t.Errorf("PruneAudits of what is broken: %v, rows %v, then %v", err, left, sequences(t, db, ours))
			}
		})
	}
}

func TestOperatorForcesTheRemovalOfBrokenRows(t *testing.T) {
	path := "file:" + t.TempDir() + "/modelgate.db"
	db := storetest.Open(t, path)
	sign := ring(t, db)
	addDays(t, db, ours, 10)
	mustExec(t, path, `DELETE FROM audit_logs WHERE sequence IN (1, 4)`)
	p := store.AuditPruning{Age: 3 * oneDay, Now: newest, Signer: sign, Operator: true}
	if _, err := db.PruneAudits(t.Context(), p); err == nil || !strings.Contains(err.Error(), "rows 1 to 1 are missing") {
		t.Errorf("PruneAudits: %v", err)
	}
	p.Force = true
	if n := mustPrune(t, db, p); n.Rows != 4 {
		t.Errorf("forced: %+v", n)
	}
	list, err := db.VerifyAudits(t.Context(), nil, sign)
	if err != nil {
		t.Fatal(err)
	}
	if brokenChains(list) != "" || !strings.Contains(list[0].Removed.String(), "(days; forced by an operator)") {
		t.Errorf("VerifyAudits = %+v, removed %s", list, list[0].Removed)
	}
	found, err := db.AuditsAfter(t.Context(), ours, 10, 1)
	if err != nil || len(found) != 1 || found[0].UserType != "operator" || found[0].URI != "modelgate audit prune" || found[0].Host == "" {
		t.Errorf("the row of the removal: %+v, %v", found, err)
	}
}

func TestLargeAuditLogDisplacesNoSmallOne(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		addDays(t, db, "small", 5)
		addDays(t, db, "larger", 100)
		addDays(t, db, "large", 100)
		if n := mustPrune(t, db, store.AuditPruning{Bytes: 1 << 20, Now: newest}); n.Rows != 0 {
			t.Errorf("within the limit %d rows went", n.Rows)
		}
		limit := int64(100 * 650)
		n := mustPrune(t, db, store.AuditPruning{Bytes: limit, Now: newest})
		small, larger, large := len(sequences(t, db, "small")), len(sequences(t, db, "larger")), len(sequences(t, db, "large"))
		if small != 5 || larger < 40 || larger > 52 || larger != large {
			t.Errorf("%+v left %d, %d and %d rows", n, small, larger, large)
		}
		if n := mustPrune(t, db, store.AuditPruning{Bytes: limit, Now: newest}); n.Rows != 0 {
			t.Errorf("pruning again removed %d rows", n.Rows)
		}
		if got := brokenChains(mustVerify(t, db, nil)); got != "" {
			t.Errorf("VerifyAudits: %s", got)
		}
	})
}

func TestRowsStayUntilTheyWereReceived(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		addDays(t, db, ours, 10)
		p := store.AuditPruning{Age: oneDay, Bytes: 1, Now: newest.Add(100 * oneDay), Destinations: []string{"webhook", "syslog"}}
		for _, step := range []struct {
			destination string
			upTo, first int64
		}{{"webhook", 8, 1}, {"syslog", 3, 4}, {"syslog", 5, 6}, {"syslog", 9, 9}} {
			if err := db.MarkAuditsSent(t.Context(), step.destination, store.AuditHead{Organisation: ours, Sequence: step.upTo}); err != nil {
				t.Fatal(err)
			}
			mustPrune(t, db, p)
			if got := sequences(t, db, ours); got[0] != step.first {
				t.Errorf("after %s has received %d: rows %v", step.destination, step.upTo, got)
			}
		}
		if got := brokenChains(mustVerify(t, db, nil)); got != "" {
			t.Errorf("VerifyAudits: %s", got)
		}
	})
}

func TestRemovalAndItsRecordAreOneTransaction(t *testing.T) {
	path := "file:" + t.TempDir() + "/modelgate.db"
	db := storetest.Open(t, path)
	addDays(t, db, ours, 10)
	before := mustVerify(t, db, nil)
	mustExec(t, path, `CREATE TRIGGER halfway BEFORE DELETE ON audit_logs WHEN OLD.sequence = 4 BEGIN SELECT RAISE(FAIL, 'the machine stops here'); END`)
	p := store.AuditPruning{Age: 3 * oneDay, Now: newest}
	if _, err := db.PruneAudits(t.Context(), p); err == nil {
		t.Fatal("PruneAudits without an error")
	}
	if after := mustVerify(t, db, nil); brokenChains(after) != "" || after[0].AuditHead != before[0].AuditHead || len(sequences(t, db, ours)) != 10 {
		t.Errorf("half a removal: %+v, rows %v", after, sequences(t, db, ours))
	}
	mustExec(t, path, `DROP TRIGGER halfway`)
	if n := mustPrune(t, db, p); n.Rows != 6 {
		t.Errorf("then %+v", n)
	}
}

func TestNodesPruneTheAuditLogAtOnce(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		nodes := []*store.DB{open(), open(), open()}
		addDays(t, nodes[0], ours, 300)
		addDays(t, nodes[0], "other", 300)
		var removed [6]int64
		var errs [12]error
		var work sync.WaitGroup
		for i := range removed {
			work.Go(func() {
				n, err := nodes[i%3].PruneAudits(context.Background(), store.AuditPruning{Age: 100 * oneDay, Now: newest})
				removed[i], errs[i] = n.Rows, err
			})
			work.Go(func() { errs[6+i] = nodes[i%3].AddAudit(context.Background(), auditRow(ours, 1000+i)) })
		}
		work.Wait()
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
		if got := brokenChains(mustVerify(t, nodes[0], nil)); got != "" {
			t.Errorf("VerifyAudits: %s", got)
		}
		sum := int64(0)
		for _, n := range removed {
			sum += n
		}
		if sum != 2*199 || len(sequences(t, nodes[0], ours)) != 101+6+1 {
			t.Errorf("nodes removed %v, %d rows are left of one", removed, len(sequences(t, nodes[0], ours)))
		}
	})
}

// The estimate that retention counts with is near what the disk has to hold.
func TestSizeOfTheAuditLogIsEstimated(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		measure := func() (n int64) {
			t.Helper()
			text := `SELECT pg_total_relation_size('audit_logs')`
			if strings.HasPrefix(dsn, "file:") {
				text = `SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size`
			}
			if err := mustRaw(t, dsn).QueryRow(text).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		for _, body := range []int{10, 1000, 20_000} {
			before, estimate := measure(), mustPrune(t, db, store.AuditPruning{Bytes: 1, Now: newest, DryRun: true}).Bytes
			for i := range 500 {
				a := auditRow(ours, body+i)
				id := reqlog.NewID(newest).String()
				a.ID, a.RequestID, a.UserID, a.ResourceType, a.ResourceID = id, id, ours, "integration", ours
				a.RequestHeaders = `{"Accept":"*/*","Content-Type":"application/json","User-Agent":"curl/8.5.0"}`
				a.RequestBody = strings.Repeat(rand.Text(), body/26+1)[:body]
				if err := db.AddAudit(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
			grown := measure() - before
			estimate = mustPrune(t, db, store.AuditPruning{Bytes: 1, Now: newest, DryRun: true}).Bytes - estimate
			t.Logf("rows with %d bytes: %d on the disk, estimate %d", body, grown/500, estimate/500)
			if estimate < grown/2 || body < 20_000 && estimate > 2*grown {
				t.Errorf("500 rows with %d bytes take %d, estimate %d", body, grown, estimate)
			}
		}
	})
}
