package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func endpoint(id string, types ...string) store.WebhookEndpoint {
	return store.WebhookEndpoint{
		ID: id, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Name: "name of " + id, Description: "d",
		URL: "https://example.com/" + id, Types: types, Status: store.WebhookEnabled, Sealed: "sealed", Hint: "hint",
		Previous: "previous", PreviousUntil: exportTime.Add(time.Hour), CreatedBy: "somebody", CreatedAt: exportTime, UpdatedAt: exportTime,
	}
}

func mustUpdate(t *testing.T, db *store.DB, f func(*store.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), nil, f); err != nil {
		t.Fatal(err)
	}
}

func mustCreateEndpoints(t *testing.T, db *store.DB, list ...store.WebhookEndpoint) {
	t.Helper()
	for _, e := range list {
		mustUpdate(t, db, func(tx *store.Tx) error { return tx.CreateWebhookEndpoint(t.Context(), e) })
	}
}

// completed is the event that a batch is complete.
func completed(object string) store.Event {
	return store.Event{
		Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Type: "batch.completed", Object: object, Time: exportTime,
	}
}

func mustEmit(t *testing.T, db *store.DB, e store.Event) {
	t.Helper()
	mustUpdate(t, db, func(tx *store.Tx) error { return tx.EmitEvent(t.Context(), e) })
}

func deliveries(t *testing.T, db *store.DB, endpoint string) []store.WebhookDelivery {
	t.Helper()
	list, total, err := db.WebhookDeliveries(t.Context(), store.WebhookDeliveryQuery{Endpoint: endpoint}, store.Page{Size: 100})
	if err != nil || total != len(list) {
		t.Fatal(total, err)
	}
	return list
}

func TestWebhookEndpointsAreStored(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		a, b := endpoint("we_1", "batch.completed"), endpoint("we_2", "batch.failed", "batch.expired")
		foreign := endpoint("we_3", "batch.completed")
		foreign.Organisation, foreign.Workspace = "another", "another"
		mustCreateEndpoints(t, db, a, b, foreign)
		b.Name, b.Description, b.URL, b.Types, b.Format, b.Sealed, b.Hint = "n", "", "https://example.org", []string{"batch.completed"}, "slack", "s", "h"
		b.Previous, b.PreviousUntil, b.UpdatedAt = "", time.Time{}, exportTime.Add(time.Second)
		mustUpdate(t, db, func(tx *store.Tx) error { return tx.UpdateWebhookEndpoint(t.Context(), b) })
		for workspace, want := range map[string][]store.WebhookEndpoint{"": {b, a}, store.DefaultWorkspace: {b, a}, "another": {}} {
			list, total, err := db.WebhookEndpoints(t.Context(), store.DefaultOrganisation, workspace, "", store.Page{Size: 10})
			if diff := cmp.Diff(want, list); diff != "" || total != len(want) || err != nil {
				t.Errorf("of %q: %d, %v\n%s", workspace, total, err, diff)
			}
		}
		list, total, err := db.WebhookEndpoints(t.Context(), store.DefaultOrganisation, "", "we_2", store.Page{Size: 10})
		if diff := cmp.Diff([]store.WebhookEndpoint{a}, list); diff != "" || total != 1 || err != nil {
			t.Errorf("after the first: %d, %v\n%s", total, err, diff)
		}
		if n, err := db.CountWebhookEndpoints(t.Context(), store.DefaultWorkspace); n != 2 || err != nil {
			t.Errorf("CountWebhookEndpoints() = %d, %v", n, err)
		}
		if _, err := db.WebhookEndpoint(t.Context(), store.DefaultOrganisation, "another", "we_1"); !apierr.IsNotFound(err) {
			t.Errorf("from another workspace: %v", err)
		}
		if _, err := db.WebhookEndpoint(t.Context(), store.DefaultOrganisation, "", "we_3"); !apierr.IsNotFound(err) {
			t.Errorf("from another organisation: %v", err)
		}
		mustUpdate(t, db, func(tx *store.Tx) error {
			return tx.TurnOffWebhookEndpoint(t.Context(), "we_1", "it is gone", exportTime.Add(time.Minute))
		})
		got, err := db.WebhookEndpoint(t.Context(), store.DefaultOrganisation, store.DefaultWorkspace, "we_1")
		if err != nil || got.Status != store.WebhookDisabled || got.Reason != "it is gone" || !got.UpdatedAt.Equal(exportTime.Add(time.Minute)) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestAnEventIsDeliveredOnceToEachEndpointThatReceivesIt(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		off, abroad, adjacent := endpoint("we_off", "batch.completed"), endpoint("we_abroad", "batch.completed"), endpoint("we_adjacent", "batch.completed")
		off.Status, abroad.Organisation, adjacent.Workspace = store.WebhookDisabled, "another", "another"
		mustCreateEndpoints(t, db, endpoint("we_a", "batch.completed"), endpoint("we_b", "batch.failed", "batch.completed"), endpoint("we_c", "batch.failed"), off, abroad, adjacent)
		var emitting sync.WaitGroup
		for range 8 {
			node := open()
			emitting.Go(func() {
				if err := node.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.EmitEvent(t.Context(), completed("batch_1")) }); err != nil {
					t.Error(err)
				}
			})
		}
		emitting.Wait()
		mustEmit(t, db, completed("batch_2"))
		events := map[string]int{}
		for id, want := range map[string]int{"we_a": 2, "we_b": 2, "we_c": 0, "we_off": 0, "we_abroad": 0, "we_adjacent": 0} {
			list := deliveries(t, db, id)
			if len(list) != want {
				t.Errorf("%s gets %d deliveries, want %d", id, len(list), want)
			}
			for _, d := range list {
				events[d.Event]++
				j, err := db.JobOf(t.Context(), store.JobWebhook, d.ID)
				if err != nil || j.State != store.JobQueued || j.Workspace != store.DefaultWorkspace || !j.NextAt.Equal(exportTime) {
					t.Errorf("job of %s: %+v, %v", d.ID, j, err)
				}
				want := fmt.Sprintf(`{"id":%q,"object":"event","type":"batch.completed","created_at":%d,"data":{"id":%q,`+
					`"organisation_id":%q,"organisation_name":"Default","workspace_id":%q,"workspace_name":"Default"}}`,
					d.Event, exportTime.Unix(), d.Object, store.DefaultOrganisation, store.DefaultWorkspace)
				if string(d.Payload) != want || !strings.HasPrefix(d.ID, "msg_") || !strings.HasPrefix(d.Event, "evt_") || d.State != store.DeliveryPending {
					t.Errorf("%+v\n%s, want\n%s", d, d.Payload, want)
				}
			}
		}
		if len(events) != 2 {
			t.Errorf("the ids of two events are %v", events)
		}
		if n, err := db.CountJobs(t.Context()); err != nil || len(n) != 1 || n[0].Count != 4 {
			t.Errorf("jobs: %+v, %v", n, err)
		}
	})
}

func TestAnEventIsPartOfTheChangeThatEmitsIt(t *testing.T) {
	db := storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db")
	mustCreateEndpoints(t, db, endpoint("we_a", "batch.completed"))
	failed := errors.New("the batch was not stored")
	err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
		return errors.Join(tx.EmitEvent(t.Context(), completed("batch_1")), failed)
	})
	if list := deliveries(t, db, "we_a"); !errors.Is(err, failed) || len(list) != 0 {
		t.Errorf("%v; %+v", err, list)
	}
	for _, e := range []store.Event{{}, {Workspace: "w", Object: "o", Type: "batch.started"}, {Workspace: "w", Type: "batch.completed"}, {Object: "o", Type: "batch.completed"}} {
		if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.EmitEvent(t.Context(), e) }); err == nil {
			t.Errorf("EmitEvent(%+v) succeeded", e)
		}
	}
}

func TestADeliveryFollowsItsJob(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		mustCreateEndpoints(t, db, endpoint("we_a", "batch.completed"))
		mustEmit(t, db, completed("batch_1"))
		id := deliveries(t, db, "we_a")[0].ID
		was, err := db.JobOf(t.Context(), store.JobWebhook, id)
		if err != nil {
			t.Fatal(err)
		}
		mustUpdate(t, db, func(tx *store.Tx) error {
			return tx.RecordWebhookAttempt(t.Context(), id, 503, "status 503", exportTime)
		})
		later := exportTime.Add(time.Minute)
		for _, tt := range []struct {
			job, failure string
			next, ended  time.Time
			state, shown string
		}{
			{store.JobRunning, "", time.Time{}, time.Time{}, store.DeliveryPending, "status 503"},
			{store.JobQueued, "status 503", later, time.Time{}, store.DeliveryPending, "status 503"},
			{store.JobRunning, "", time.Time{}, time.Time{}, store.DeliveryPending, "status 503"},
			{store.JobDead, "status 504", time.Time{}, later, store.DeliveryFailed, "status 504"},
			{store.JobQueued, "status 504", later, time.Time{}, store.DeliveryPending, "status 504"},
			{store.JobCancelled, "", time.Time{}, later, store.DeliveryFailed, "it was cancelled"},
			{store.JobFailed, "it is disabled", time.Time{}, later, store.DeliveryFailed, "it is disabled"},
			{store.JobDone, "", time.Time{}, later, store.DeliveryDone, ""},
		} {
			next := was
			next.State, next.Failure, next.NextAt, next.EndedAt = tt.job, tt.failure, tt.next, tt.ended
			if moved, err := db.MoveJob(t.Context(), was, next, nil); !moved || err != nil {
				t.Fatal(moved, err)
			}
			was = next
			d, err := db.WebhookDelivery(t.Context(), id)
			if err != nil || d.State != tt.state || d.Failure != tt.shown || !d.EndedAt.Equal(tt.ended) || tt.job != store.JobRunning && !d.NextAt.Equal(tt.next) {
				t.Errorf("job %s: %+v, %v", tt.job, d, err)
			}
			if d.Attempts != 1 || d.StatusCode != 503 || !d.TriedAt.Equal(exportTime) {
				t.Errorf("attempts: %+v", d)
			}
		}
		for q, want := range map[store.WebhookDeliveryQuery]int{
			{Endpoint: "we_a", State: store.DeliveryDone, Type: "batch.completed"}: 1, {Endpoint: "we_a", State: store.DeliveryFailed}: 0,
			{Endpoint: "we_a", Type: "batch.failed"}: 0, {Endpoint: "we_b"}: 0,
		} {
			if list, total, err := db.WebhookDeliveries(t.Context(), q, store.Page{Size: 10}); len(list) != want || total != want || err != nil {
				t.Errorf("%+v: %d of %d, %v", q, len(list), total, err)
			}
		}
	})
}

func TestOldDeliveriesAreDeletedWithTheirJobs(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		mustCreateEndpoints(t, db, endpoint("we_a", "batch.completed"), endpoint("we_b", "batch.completed"))
		for i, object := range []string{"old", "recent", "old and pending"} {
			e := completed(object)
			if i == 1 {
				e.Time = exportTime.Add(time.Hour)
			}
			mustEmit(t, db, e)
		}
		for _, d := range deliveries(t, db, "we_a") {
			if d.Object == "old and pending" {
				continue
			}
			was, err := db.JobOf(t.Context(), store.JobWebhook, d.ID)
			next := was
			next.State = store.JobDone
			if moved, err2 := db.MoveJob(t.Context(), was, next, nil); !moved || err != nil || err2 != nil {
				t.Fatal(moved, err, err2)
			}
		}
		if n, err := db.PruneWebhookDeliveries(t.Context(), exportTime.Add(time.Minute)); n != 1 || err != nil {
			t.Errorf("PruneWebhookDeliveries() = %d, %v", n, err)
		}
		if list := deliveries(t, db, "we_a"); len(list) != 2 {
			t.Errorf("what is left: %+v", list)
		}
		mustUpdate(t, db, func(tx *store.Tx) error { return tx.DeleteWebhookEndpoint(t.Context(), "we_a") })
		jobs, _, err := db.Jobs(t.Context(), store.JobQuery{Organisation: store.DefaultOrganisation}, store.Page{Size: 10})
		if left := deliveries(t, db, "we_b"); len(left) != 3 || len(jobs) != 3 || err != nil {
			t.Errorf("after the endpoint was deleted: %+v\n%+v, %v", left, jobs, err)
		}
		err = db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.DeleteWebhookEndpoint(t.Context(), "we_a") })
		if !apierr.IsNotFound(err) {
			t.Errorf("deleting it again: %v", err)
		}
	})
}

// TestABatchWhoseJobIsDeadHasFailed ends the job of a batch without an end of the batch.
func TestABatchWhoseJobIsDeadHasFailed(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		mustCreateEndpoints(t, db, endpoint("we_1", "batch.failed"))
		o := store.Object{
			ID: "gw_batch_1", Kind: store.ObjectBatch, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, State: "in_progress",
			CreatedAt: exportTime, UpdatedAt: exportTime,
		}
		was := store.Job{
			ID: "j", Kind: store.JobBatch, Subject: o.ID, Organisation: o.Organisation, Workspace: o.Workspace, NextAt: exportTime, CreatedAt: exportTime,
		}
		mustUpdate(t, db, func(tx *store.Tx) error {
			if err := tx.AddObject(t.Context(), o); err != nil {
				return err
			}
			return tx.AddJob(t.Context(), was)
		})
		was.State = store.JobQueued
		dead := was
		dead.State, dead.EndedAt = store.JobDead, exportTime.Add(time.Minute)
		if moved, err := db.MoveJob(t.Context(), was, dead, nil); !moved || err != nil {
			t.Fatal(moved, err)
		}
		if got, err := db.ObjectByID(t.Context(), o.ID); err != nil || got.State != "failed" || !got.EndedAt.Equal(dead.EndedAt) {
			t.Errorf("%+v, %v", got, err)
		}
		if list := deliveries(t, db, "we_1"); len(list) != 1 || list[0].Type != "batch.failed" || list[0].Object != o.ID {
			t.Errorf("%+v", list)
		}
	})
}
