package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func addTurn(t *testing.T, db *store.DB, o store.Object) {
	t.Helper()
	o.Kind, o.Workspace, o.CreatedAt, o.UpdatedAt = store.ObjectResponse, "w", time.UnixMilli(1), time.UnixMilli(1)
	err := db.Transact(t.Context(), func(tx *store.Tx) error {
		if err := tx.AddObject(t.Context(), o); err != nil {
			return err
		}
		return tx.PutResponseContent(t.Context(), o.ID, []byte(o.ID))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestChainsAreReadFromTheirBeginning(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		const n = 1000
		for i := range n {
			o := store.Object{ID: fmt.Sprint("r", i)}
			if i > 0 {
				o.Parent = fmt.Sprint("r", i-1)
			}
			if i == 10 {
				o.ExpiresAt = time.UnixMilli(5000)
			}
			addTurn(t, db, o)
		}
		chain := func(workspace, id string, at int64, limit int) []store.ResponseTurn {
			t.Helper()
			list, err := db.ResponseChain(t.Context(), workspace, id, time.UnixMilli(at), limit)
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		list := chain("w", "r999", 4999, n)
		for i := range list {
			if want := fmt.Sprint("r", i); list[i].ID != want || string(list[i].Content) != want {
				t.Fatalf("turn %d is %s with %s", i, list[i].ID, list[i].Content)
			}
		}
		if len(list) != n || list[0].Parent != "" {
			t.Errorf("%d turns from %+v", len(list), list[0])
		}
		if list := chain("w", "r999", 5000, n); len(list) != n-11 || list[0].Parent != "r10" {
			t.Errorf("after an expired turn there are %d from %+v", len(list), list[0])
		}
		if list := chain("w", "r999", 1, 5); len(list) != 5 || list[0].Parent != "r994" {
			t.Errorf("of at most 5 there are %d from %+v", len(list), list[0])
		}
		if list := chain("other", "r999", 1, n); len(list) != 0 {
			t.Errorf("another workspace reads %d turns", len(list))
		}
		o := store.Object{ID: "r500", Kind: store.ObjectResponse}
		if err := db.Transact(t.Context(), func(tx *store.Tx) error { return tx.DeleteObject(t.Context(), &o) }); err != nil {
			t.Fatal(err)
		}
		if list := chain("w", "r999", 1, n); list[0].Parent != "r500" {
			t.Errorf("after a deletion the chain begins with %+v", list[0])
		}
		if _, err := db.ResponseContent(t.Context(), "r500"); !apierr.IsNotFound(err) {
			t.Errorf("the content of a deleted response: %v", err)
		}
	})
}

func TestConversationsAreAppendedInTurns(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		addObject(t, db, store.Object{ID: "c", Kind: store.ObjectConversation, Workspace: "w"})
		add := func(limit int, ids ...string) error {
			return db.Transact(t.Context(), func(tx *store.Tx) error {
				list := make([]store.ConversationItem, len(ids))
				for i, id := range ids {
					list[i] = store.ConversationItem{ID: id, Content: []byte(id)}
				}
				return tx.AppendConversation(t.Context(), "c", list, limit)
			})
		}
		var all sync.WaitGroup
		for n := range 10 {
			all.Go(func() {
				if err := add(100, fmt.Sprint("a", n), fmt.Sprint("b", n)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		list, more, err := db.ConversationItems(t.Context(), store.ItemQuery{Conversation: "c", Ascending: true, Limit: 100})
		if err != nil || more || len(list) != 20 {
			t.Fatalf("%d items, more %t, %v", len(list), more, err)
		}
		for i := 0; i < 20; i += 2 {
			if list[i].ID[0] != 'a' || list[i+1].ID != "b"+list[i].ID[1:] || list[i].Position != int64(i+1) {
				t.Errorf("items %d are %+v and %+v", i, list[i], list[i+1])
			}
		}
		for name, err := range map[string]error{"a repeated id": add(100, "x", "a1"), "too many": add(21, "x", "y")} {
			if apierr.From(err).Kind != apierr.Conflict {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := db.ConversationItem(t.Context(), "c", "x"); !apierr.IsNotFound(err) {
			t.Errorf("half of the items were added: %v", err)
		}
		page, more, err := db.ConversationItems(t.Context(), store.ItemQuery{Conversation: "c", After: 20, Limit: 3})
		if err != nil || !more || len(page) != 3 || page[0].Position != 19 {
			t.Errorf("a page from the end is %+v, %t, %v", page, more, err)
		}
	})
}

func TestEventsAreReadFromAnyNumber(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		addObject(t, db, store.Object{ID: "r", Kind: store.ObjectResponse, Workspace: "w"})
		for _, e := range []store.ResponseEvents{{First: 0, Last: 1}, {First: 2, Last: 2}, {First: 3, Last: 9}} {
			e.Content = []byte("x")
			if err := db.Transact(t.Context(), func(tx *store.Tx) error { return tx.AddResponseEvents(t.Context(), "r", e) }); err != nil {
				t.Fatal(err)
			}
		}
		for after, want := range map[int64]int{-1: 3, 0: 3, 1: 2, 2: 1, 8: 1, 9: 0} {
			if list, err := db.ResponseEventsAfter(t.Context(), "r", after, 10); err != nil || len(list) != want {
				t.Errorf("after %d: %d rows, %v, want %d", after, len(list), err, want)
			}
		}
	})
}

func TestEndOfAJobEndsItsResponse(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		mustCreateEndpoints(t, db, endpoint("e", "response.failed", "response.cancelled"))
		addObject(t, db, store.Object{ID: "r", Kind: store.ObjectResponse, Workspace: "w", State: "queued"})
		j := store.Job{ID: "j", Kind: store.JobResponse, Subject: "r", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, CreatedAt: time.UnixMilli(1), NextAt: time.UnixMilli(1)}
		if err := db.Transact(t.Context(), func(tx *store.Tx) error { return tx.AddJob(t.Context(), j) }); err != nil {
			t.Fatal(err)
		}
		j.State = store.JobQueued
		for _, tt := range []struct {
			job, want string
			ended     bool
		}{{store.JobDead, "failed", true}, {store.JobQueued, "queued", false}, {store.JobCancelled, "cancelled", true}} {
			next := j
			next.State, next.EndedAt = tt.job, time.UnixMilli(9)
			if moved, err := db.MoveJob(t.Context(), j, next, nil); !moved || err != nil {
				t.Fatalf("%s: %t, %v", tt.job, moved, err)
			}
			j = next
			if o, err := db.ObjectByID(t.Context(), "r"); err != nil || o.State != tt.want || o.EndedAt.IsZero() == tt.ended {
				t.Errorf("after %s the response is %s, ended at %v, %v", tt.job, o.State, o.EndedAt, err)
			}
		}
		if list := deliveries(t, db, "e"); len(list) != 2 || list[0].Object != "r" {
			t.Errorf("the endpoint gets %+v, want both ends of the response", list)
		}
	})
}
