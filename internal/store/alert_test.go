package store_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// noteAlert records an event with an alert about an object.
func noteAlert(t *testing.T, db *store.DB, event, id, object string, at time.Time) {
	t.Helper()
	mustChange(t, db, func(tx *store.Tx) error {
		return tx.Note(t.Context(), &store.Audit{
			ID: event, Organisation: store.DefaultOrganisation, Workspace: "w", Time: at, QueryParams: "{}", RequestHeaders: "{}", RequestBody: "{}",
			ResourceType: "api_key", ResourceID: object, Alert: &store.Alert{ID: id, Type: "t", Data: raw(`{"n":1}`)},
		})
	})
}

// mustClaim returns the ids of the alerts that are due at a time.
func mustClaim(t *testing.T, db *store.DB, at time.Time) (ids []string) {
	t.Helper()
	list, err := db.ClaimAlerts(t.Context(), at, time.Minute, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		ids = append(ids, a.ID)
	}
	return ids
}

func TestAnAlertIsClaimedByOneGatewayUntilItsLeaseEnds(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		noteAlert(t, db, "e1", "", "k", day)
		if got := mustClaim(t, db, day.Add(-time.Second)); got != nil {
			t.Errorf("before it is due %v", got)
		}
		var mu sync.Mutex
		var got []string
		var claiming sync.WaitGroup
		for range 4 {
			claiming.Go(func() {
				ids := mustClaim(t, db, day)
				mu.Lock()
				defer mu.Unlock()
				got = append(got, ids...)
			})
		}
		claiming.Wait()
		if !slices.Equal(got, []string{"e1"}) {
			t.Errorf("claimed %v, want it once", got)
		}
		if got := mustClaim(t, db, day.Add(59*time.Second)); got != nil {
			t.Errorf("during the lease %v", got)
		}
		list, err := db.ClaimAlerts(t.Context(), day.Add(time.Minute), time.Minute, 100)
		if err != nil || len(list) != 1 || list[0].Attempts != 2 || list[0].Organisation != store.DefaultOrganisation || list[0].Workspace != "w" ||
			list[0].ResourceType != "api_key" || list[0].ResourceID != "k" || string(list[0].Data) != `{"n":1}` || !list[0].CreatedAt.Equal(day) {
			t.Errorf("after the lease %+v, %v", list, err)
		}
		if err := db.PutAlert(t.Context(), "e1", []string{"a", "b"}, day.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		list, err = db.ClaimAlerts(t.Context(), day.Add(time.Hour), time.Minute, 100)
		if err != nil || len(list) != 1 || !slices.Equal(list[0].Delivered, []string{"a", "b"}) {
			t.Errorf("after a failure %+v, %v", list, err)
		}
		if err := db.PutAlert(t.Context(), "e1", []string{"a", "b", "c"}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if got := mustClaim(t, db, day.AddDate(1, 0, 0)); got != nil {
			t.Errorf("after its end %v", got)
		}
	})
}

func TestAnAlertWithAnIDIsStoredOnce(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		noteAlert(t, db, "e1", "expiry-k", "k", day)
		if err := db.PutAlert(t.Context(), "expiry-k", nil, time.Time{}); err != nil {
			t.Fatal(err)
		}
		noteAlert(t, db, "e2", "expiry-k", "k", day)
		if got := mustClaim(t, db, day); got != nil {
			t.Errorf("stored again as %v", got)
		}
		if err := db.PruneAlerts(t.Context(), day.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		noteAlert(t, db, "e3", "expiry-k", "k", day)
		if err := db.PruneAlerts(t.Context(), day.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if got := mustClaim(t, db, day); !slices.Equal(got, []string{"expiry-k"}) {
			t.Errorf("after the first was forgotten %v; one that is due is not forgotten", got)
		}
	})
}

func TestAlertsAboutOneObjectAreLimited(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		for i := range 25 {
			noteAlert(t, db, fmt.Sprintf("e%02d", i), "", "policy", day.Add(time.Duration(i)*time.Second))
		}
		noteAlert(t, db, "other", "", "another", day)
		list, err := db.ClaimAlerts(t.Context(), day.Add(time.Minute), time.Minute, 100)
		if err != nil || len(list) != 21 {
			t.Fatalf("%d alerts, %v; want 20 of the policy and that of another object", len(list), err)
		}
		for _, a := range list {
			if last := strings.Contains(string(a.Data), `"further_alerts_suppressed":true`); last != (a.ID == "e19") {
				t.Errorf("%s: %s", a.ID, a.Data)
			}
		}
		noteAlert(t, db, "later", "", "policy", day.Add(2*time.Hour))
		if got := mustClaim(t, db, day.Add(2*time.Hour)); !slices.Contains(got, "later") {
			t.Errorf("two hours later %v", got)
		}
	})
}

func TestKeysAreReportedOnceBeforeTheyExpire(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		for name, at := range map[string]time.Time{"soon": day.Add(time.Hour), "later": day.Add(48 * time.Hour), "over": day, "never": {}} {
			k := sampleKey(name)
			k.ExpiresAt = at
			mustCreate(t, db, k)
		}
		var found []string
		note := func(k store.Key) *store.Audit {
			found = append(found, k.Name)
			a := expiredNote(k)
			a.Alert.ID, a.Organisation = store.ExpiryAlert(k), store.DefaultOrganisation
			return a
		}
		for range 2 {
			if err := db.NoteExpiring(t.Context(), day, day.Add(24*time.Hour), note); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(found, []string{"soon"}) {
			t.Errorf("found %v, want soon", found)
		}
	})
}

func TestRecipientsOfAlertsAreAdminsAndTheUserConcerned(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		mustChange(t, db, func(tx *store.Tx) error {
			for _, u := range []store.User{
				{ID: "u1", Email: "owner@example.com", Role: "owner", Status: "active"}, {ID: "u2", Email: "admin@example.com", Role: "admin", Status: "active"},
				{ID: "u3", Email: "manager@example.com", Role: "member", Status: "active"}, {ID: "u4", Email: "member@example.com", Role: "member", Status: "active"},
				{ID: "u5", Email: "user@example.com", Role: "member", Status: "active"}, {ID: "u6", Email: "gone@example.com", Role: "admin", Status: "disabled"},
			} {
				u.CreatedAt, u.UpdatedAt = day, day
				if err := tx.CreateUser(t.Context(), store.DefaultOrganisation, u); err != nil {
					return err
				}
			}
			for user, role := range map[string]string{"u3": "manager", "u4": "member", "u5": "member"} {
				if err := tx.SetWorkspaceMember(t.Context(), store.DefaultWorkspace, user, role, day); err != nil {
					return err
				}
			}
			return nil
		})
		for _, tt := range []struct{ organisation, workspace, user, want string }{
			{store.DefaultOrganisation, store.DefaultWorkspace, "u5", "admin manager owner user"},
			{store.DefaultOrganisation, "", "", "admin owner"},
			{store.DefaultOrganisation, "other", "u4", "admin member owner"},
			{"other", store.DefaultWorkspace, "u5", ""},
		} {
			list, err := db.AlertRecipients(t.Context(), tt.organisation, tt.workspace, tt.user)
			got := strings.ReplaceAll(strings.Join(list, " "), "@example.com", "")
			if err != nil || got != tt.want {
				t.Errorf("%+v: %q, %v", tt, got, err)
			}
		}
	})
}
