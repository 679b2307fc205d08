package main

import (
	"strings"
	"testing"
	"time"

	"modelgate/internal/store"
)

func TestAnOperatorLetsAnOwnerInAndRemovesFactors(t *testing.T) {
	data := t.TempDir()
	invoke(t, nil, "", "organisations", "list", "--data", data) // makes the database
	if code, out, errs := invoke(t, nil, "", "claim", "--data", data); code != 0 || !strings.HasPrefix(out, "/claim?token=mgl-") {
		t.Fatalf("without an owner: exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := invoke(t, nil, "", "claim", "--data", data, "--email", "boss@example.com"); code != 1 || !strings.Contains(errs, "no owner yet") {
		t.Fatalf("without an owner, with an address: exit %d: %s", code, errs)
	}
	db, err := store.Open(t.Context(), "file:"+data+"/modelgate.db", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now, org := time.Now(), store.DefaultOrganisation
	err = db.Update(t.Context(), nil, func(tx *store.Tx) error {
		for id, role := range map[string]string{"boss": "owner", "mate": "member"} {
			u := store.User{ID: id, Email: id + "@example.com", Status: store.Active, Role: role, CreatedAt: now, UpdatedAt: now}
			if err := tx.CreateUser(t.Context(), org, u); err != nil {
				return err
			}
		}
		o, err := tx.Organisation(t.Context(), org)
		if err != nil {
			return err
		}
		o.OwnerID = "boss"
		if err := tx.UpdateOrganisation(t.Context(), o); err != nil {
			return err
		}
		return tx.SetOneTimeCode(t.Context(), store.OneTimeCode{Organisation: org, UserID: "boss", Sealed: "s", CreatedAt: now})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, args, says string
		code             int
	}{
		{"an owner", "claim --email Boss@example.com", "/login?owner=mgl-", 0},
		{"no address", "claim", "--email", 1},
		{"a member", "claim --email mate@example.com", "not an owner", 1},
		{"nobody", "claim --email x@example.com", `"x@example.com" not found`, 1},
		{"no organisation", "claim --organisation none", `"none" not found`, 1},
		{"no factor", "users reset-factors --email mate@example.com", "no second factor", 1},
		{"nobody's factors", "users reset-factors --email x@example.com", `"x@example.com" not found`, 1},
		{"factors without an address", "users reset-factors", "--email", 2},
		{"factors", "users reset-factors --email boss@example.com", "", 0},
		{"the same again", "users reset-factors --email boss@example.com", "no second factor", 1},
	} {
		code, out, errs := invoke(t, nil, "", append(strings.Fields(tt.args), "--data", data)...)
		if code != tt.code || !strings.Contains(out+errs, tt.says) {
			t.Errorf("%s: exit %d: %s%s", tt.name, code, out, errs)
		}
	}
	for action, want := range map[string]int{"owner_link": 2, "second_factor_reset": 1} {
		rows, _, err := db.Audits(t.Context(), store.AuditQuery{Organisation: org, To: now.Add(time.Hour), Action: action}, store.Page{})
		if err != nil || len(rows) != want || rows[0].UserType != "operator" || strings.Contains(rows[0].RequestBody, "mgl-") {
			t.Errorf("%s: the audit log has %+v, %v", action, rows, err)
		}
	}
}
