package main

import (
	"encoding/json"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestCommandsAreInTheAuditLogWithTheirOperator(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		mustSealLog(t, db)
		data, env := t.TempDir(), []string{"DATABASE_URL=" + dsn}
		if path, ok := strings.CutPrefix(dsn, "file:"); ok {
			data, env = filepath.Dir(path), nil
		}
		mustRun := func(more []string, args ...string) string {
			t.Helper()
			code, out, errs := invoke(t, append(more, env...), "", append(args, "--data", data)...)
			if code != 0 {
				t.Fatalf("%q: exit %d: %s%s", args, code, out, errs)
			}
			return out
		}
		mustRun(nil, "keys", "create", "--name", "ci", "--json")
		keys, err := db.Keys(t.Context())
		if err != nil || len(keys) != 1 {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		mustRun(nil, "keys", "revoke", keys[0].ID)
		mustRun([]string{newMaster, previous}, "keys", "rotate-master", "--dry-run")
		mustRun([]string{newMaster, previous}, "keys", "rotate-master")
		file := filepath.Join(t.TempDir(), "state.yaml")
		if err := os.WriteFile(file, []byte("workspaces: [{slug: default, name: Renamed}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		mustRun(nil, "apply", file)
		rows, _, err := db.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}, store.Page{})
		if err != nil {
			t.Fatal(err)
		}
		u, err := user.Current()
		host, err2 := os.Hostname()
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		var got []string
		for i := len(rows) - 1; i >= 0; i-- {
			r := rows[i]
			got = append(got, r.URI+" "+r.ResourceType+" "+r.Action)
			if r.UserID != u.Username || r.Host != host || r.UserType != "operator" || strings.Contains(r.RequestBody, "mg-") {
				t.Errorf("%s by %s (%s) on %q: %s", r.URI, r.UserID, r.UserType, r.Host, r.RequestBody)
			}
		}
		want := "modelgate keys create api_key create|modelgate keys revoke api_key delete|modelgate keys rotate-master data_key rotate|modelgate apply manifest update"
		if strings.Join(got, "|") != want {
			t.Errorf("rows %q, want %s", got, want)
		}
		if out := mustRun(nil, "audit", "verify"); !strings.Contains(out, store.DefaultOrganisation+": 4 rows, ") {
			t.Errorf("verify: %s", out)
		}
	})
}

func TestNewOrganisationHasAnAuditRow(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		data, env := t.TempDir(), []string{"DATABASE_URL=" + dsn}
		if path, ok := strings.CutPrefix(dsn, "file:"); ok {
			data, env = filepath.Dir(path), nil
		}
		create := func() (code int, out string) {
			code, out, _ = invoke(t, env, "", "organisations", "create", "--name", "Acme Inc", "--slug", "acme", "--json", "--data", data)
			return code, out
		}
		code, out := create()
		var made struct {
			ID   string `json:"id"`
			Link string `json:"claim_link"`
		}
		if err := json.Unmarshal([]byte(out), &made); code != 0 || err != nil || made.ID == "" {
			t.Fatalf("exit %d: %s", code, out)
		}
		if code, out := create(); code == 0 { // refused, so without a row
			t.Errorf("a second organisation with the slug was made: %s", out)
		}
		list := func(organisation string) []store.Audit {
			rows, _, err := db.Audits(t.Context(), store.AuditQuery{Organisation: organisation, From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}, store.Page{})
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		u, err := user.Current()
		host, err2 := os.Hostname()
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		rows := list(made.ID)
		if len(rows) != 1 {
			t.Fatalf("%d rows, want 1: %+v", len(rows), rows)
		}
		r := rows[0]
		got := strings.Join([]string{r.URI, r.ResourceType, r.ResourceID, r.Action, r.UserType, r.UserID, r.Host}, "|")
		if want := strings.Join([]string{"modelgate organisations create", "organisation", made.ID, "create", "operator", u.Username, host}, "|"); got != want {
			t.Errorf("row %s, want %s", got, want)
		}
		if !strings.Contains(r.RequestBody, `"acme"`) || !strings.Contains(r.RequestBody, `"Acme Inc"`) {
			t.Errorf("the row does not name the organisation: %s", r.RequestBody)
		}
		_, token, _ := strings.Cut(made.Link, "token=")
		if token == "" || strings.Contains(r.RequestBody+r.QueryParams+r.URI+r.RequestHeaders, token) {
			t.Errorf("the row holds the claim link %q: %+v", made.Link, r)
		}
		if rows := list(store.DefaultOrganisation); len(rows) != 0 {
			t.Errorf("the audit log of another organisation has %+v", rows)
		}
		if code, out, errs := invoke(t, env, "", "audit", "verify", "--data", data); code != 0 || !strings.Contains(out, made.ID+": 1 row, ") {
			t.Errorf("verify: exit %d: %s%s", code, out, errs)
		}
	})
}

func mustSealLog(t *testing.T, db *store.DB) {
	t.Helper()
	if _, err := mustRing(t, db, oldMaster).Seal(t.Context(), store.DefaultOrganisation, secret.New("canary-value")); err != nil {
		t.Fatal(err)
	}
}

func TestPruneRemovesOldAuditRowsAndVerifyGoesOnFromThere(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		mustSealLog(t, db)
		for n := range 10 {
			a := store.OperatorAudit(store.DefaultOrganisation, "test", nil)
			a.Time = time.Now().Add(-time.Duration(10-n) * 24 * time.Hour)
			if err := db.AddAudit(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		data, env := t.TempDir(), []string{"DATABASE_URL=" + dsn}
		if path, ok := strings.CutPrefix(dsn, "file:"); ok {
			data, env = filepath.Dir(path), nil
		}
		master := oldMaster
		for _, tt := range []struct {
			env, args string
			code      int
			says      string
		}{
			{"", "prune", 2, "set --days or --bytes"},
			{"", "prune --days -1", 2, "days must not be negative"},
			{"", "prune --bytes 1MB", 2, "the audit log must be at least 64 MB"},
			{"", "prune --days 5 --received-by mail", 2, "--received-by must be webhook, syslog or both"},
			{"", "prune --days 5", 1, "the removal of audit rows must be signed; give the master key"},
			{master, "prune --days 5 --dry-run", 0, "would remove 5 rows, about 3"},
			{master, "prune --days 5 --received-by webhook,syslog", 0, "removed 0 rows"},
			{master, "prune --days 5", 0, "removed 5 rows, about 3"},
			{master, "prune --days 5", 0, "removed 0 rows, about 0 bytes"},
			{"", "verify", 0, "(days; signature not verified without the master key)"},
			{master, "verify", 0, "11 rows, "},
			{master, "verify", 0, "rows 1 to 5, up to "},
			{master, "verify", 0, "(days; signature valid)"},
		} {
			args := append([]string{"audit"}, strings.Fields(tt.args)...)
			code, out, errs := invoke(t, append(slices.Clone(env), tt.env), "", append(args, "--data", data)...)
			if code != tt.code || !strings.Contains(out+errs, tt.says) {
				t.Errorf("%s %s: exit %d: %s%s", tt.env, tt.args, code, out, errs)
			}
		}
	})
}

func TestTamperedAuditLogIsNamedByVerify(t *testing.T) {
	data := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if code, _, errs := invoke(t, nil, "", "keys", "create", "--data", data, "--name", name); code != 0 {
			t.Fatal(errs)
		}
	}
	code, heads, errs := invoke(t, nil, "", "audit", "verify", "--data", data, "--json")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	since := filepath.Join(t.TempDir(), "heads.json")
	if err := os.WriteFile(since, []byte(heads), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := sqlite.Open(t.Context(), sqlite.Options{Path: "file:" + data + "/modelgate.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, tt := range []struct{ text, args, says string }{
		{`DELETE FROM audit_logs WHERE sequence = 3; UPDATE audit_heads SET sequence = 2, hash = (SELECT hash FROM audit_logs WHERE sequence = 2)`, "--since " + since, "rows 3 to 3 are missing"},
		{`UPDATE audit_logs SET user_id = 'somebody' WHERE sequence = 2`, "", "row 2 ("},
		{`UPDATE audit_logs SET user_id = 'somebody' WHERE sequence = 2`, "--json", "row 2 ("},
	} {
		if _, err := file.Write.ExecContext(t.Context(), tt.text); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"audit", "verify", "--data", data}, strings.Fields(tt.args)...)
		if code, out, errs := invoke(t, nil, "", args...); code != 1 || !strings.Contains(errs, tt.says) || strings.Count(errs, "\n") != 1 || strings.Contains(out, "[") {
			t.Errorf("exit %d, prints %q and %q, want 1 and %q: %s %s", code, out, errs, tt.says, tt.args, tt.text)
		}
	}
	for _, args := range []string{"audit", "audit mend", "audit verify --since " + data + "/none --data " + data} {
		if code, _, _ := invoke(t, nil, "", strings.Fields(args)...); code == 0 {
			t.Errorf("%s: exit 0", args)
		}
	}
}
