package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestExportSchedulesAreStored(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		s := store.ExportSchedule{
			ID: "s1", Organisation: store.DefaultOrganisation, Name: "Daily", Every: "day", Zone: "UTC", Format: "csv", Filters: []byte(`{"a":1}`),
			Requested: []string{"id"}, Status: store.ScheduleActive, KeyID: "k", From: exportTime, NextAt: exportTime.Add(time.Hour),
			CreatedAt: exportTime, UpdatedAt: exportTime,
		}
		change := func(f func(tx *store.Tx) error) error { return db.Update(t.Context(), nil, f) }
		other := s
		other.ID, other.KeyID, other.UserID, other.Workspaces, other.NextAt = "s2", "", "u", []string{"w"}, exportTime.Add(2*time.Hour)
		for _, one := range []store.ExportSchedule{s, other} {
			if err := change(func(tx *store.Tx) error { return tx.CreateExportSchedule(t.Context(), one) }); err != nil {
				t.Fatal(err)
			}
		}
		got, err := db.ExportSchedule(t.Context(), "s1")
		if diff := cmp.Diff(s, got); diff != "" || err != nil {
			t.Fatalf("%v\n%s", err, diff)
		}
		for _, tt := range []struct {
			key, user string
			want      int
		}{{"", "", 2}, {"k", "", 1}, {"", "u", 1}, {"k", "u", 0}} {
			if _, n, err := db.ExportSchedules(t.Context(), s.Organisation, tt.key, tt.user, store.Page{}); n != tt.want || err != nil {
				t.Errorf("%d schedules of %q and %q, %v, want %d", n, tt.key, tt.user, err, tt.want)
			}
		}
		for at, want := range map[time.Time]int{s.NextAt.Add(-time.Millisecond): 0, s.NextAt: 1, other.NextAt: 2} {
			if due, err := db.DueExportSchedules(t.Context(), at); len(due) != want || err != nil {
				t.Errorf("%d are due at %s, %v, want %d", len(due), at, err, want)
			}
		}
		take := func(at time.Time) error {
			return change(func(tx *store.Tx) error {
				if err := tx.CheckExportScheduleDue(t.Context(), "s1", at); err != nil {
					return err
				}
				taken := s
				taken.NextAt = at.Add(time.Hour)
				return tx.UpdateExportSchedule(t.Context(), taken)
			})
		}
		if err := take(s.NextAt); err != nil {
			t.Error(err)
		}
		other.Status = store.ScheduleStopped
		if err := change(func(tx *store.Tx) error { return tx.UpdateExportSchedule(t.Context(), other) }); err != nil {
			t.Error(err)
		}
		if n, err := db.CountStoppedExportSchedules(t.Context()); n != 1 || err != nil {
			t.Errorf("%d schedules are stopped, %v, want 1", n, err)
		}
		if err := take(s.NextAt); !apierr.IsNotFound(err) {
			t.Errorf("taken twice: %v", err)
		}
		elsewhere := store.Organisation{ID: "other", Slug: "other", Status: store.Active, CreatedAt: exportTime, UpdatedAt: exportTime}
		home := store.Workspace{ID: "home", Organisation: "other", Slug: "home", Status: store.Active, CreatedAt: exportTime, UpdatedAt: exportTime}
		if err := change(func(tx *store.Tx) error {
			return tx.CreateOrganisation(t.Context(), elsewhere, home, store.PromptCollection{ID: "folder", Slug: "folder", CreatedAt: exportTime})
		}); err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			one := s
			one.ID, one.NextAt = fmt.Sprintf("late%02d", i), exportTime.Add(-time.Duration(i)*time.Hour)
			if i == 0 {
				one.Organisation = "other"
			}
			if err := change(func(tx *store.Tx) error { return tx.CreateExportSchedule(t.Context(), one) }); err != nil {
				t.Fatal(err)
			}
		}
		due, err := db.DueExportSchedules(t.Context(), exportTime)
		if err != nil || len(due) != 20 || due[0].ID != "late29" || due[1].ID != "late00" || due[2].ID != "late28" {
			t.Errorf("due are %v, %v, want 20 with the only one of another organisation second", due, err)
		}
		if err := change(func(tx *store.Tx) error { return tx.DeleteExportSchedule(t.Context(), "s1") }); err != nil {
			t.Error(err)
		}
		if _, err := db.ExportSchedule(t.Context(), "s1"); !apierr.IsNotFound(err) {
			t.Errorf("a deleted schedule: %v", err)
		}
	})
}
