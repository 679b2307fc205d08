package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"modelgate/internal/store"
)

func TestOperatorMakesALinkToResetAPassword(t *testing.T) {
	data := t.TempDir()
	invoke(t, nil, "", "organisations", "list", "--data", data) // makes the database
	db, err := store.Open(t.Context(), "file:"+data+"/modelgate.db", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	err = db.Update(t.Context(), nil, func(tx *store.Tx) error {
		for id, hash := range map[string]string{"boss": "theirs", "new": ""} {
			u := store.User{ID: id, Email: id + "@example.com", PasswordHash: hash, Status: store.Active, Role: "owner", CreatedAt: now, UpdatedAt: now}
			if err := tx.CreateUser(context.Background(), store.DefaultOrganisation, u); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := invoke(t, nil, "", "users", "reset-password", "--data", data, "--email", "Boss@example.com")
	if code != 0 || !strings.HasPrefix(out, "/set-password?token=mgl-") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	rows, _, err := db.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, To: now.Add(time.Hour), Action: "password_reset_link"}, store.Page{})
	if err != nil || len(rows) != 1 || rows[0].ResourceID != "boss" || rows[0].UserType != "operator" || rows[0].UserID == "" || rows[0].Host == "" {
		t.Errorf("the audit log has %+v, %v", rows, err)
	}
	db.Close()
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nobody has the address": {[]string{"reset-password", "--data", data, "--email", "x@example.com"}, 1, `"x@example.com" not found`},
		"no password yet":        {[]string{"reset-password", "--data", data, "--email", "new@example.com"}, 1, "no password yet"},
		"no address":             {[]string{"reset-password", "--data", data}, 2, "--email"},
		"nothing to do":          {nil, 2, "reset-password"},
	} {
		if code, _, errs := invoke(t, nil, "", append([]string{"users"}, tt.args...)...); code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
	}
}
