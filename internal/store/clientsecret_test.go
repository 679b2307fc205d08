package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestAClientSecretIsUsedOnceByAllNodes(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		nodes := []*store.DB{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		use := func(node int, id string) (bool, error) {
			return nodes[node].UseClientSecret(t.Context(), store.SecretUse{ID: id, Workspace: "w", Time: time.Now(), ExpiresAt: time.Now().Add(time.Hour)})
		}
		var first atomic.Int64
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				ok, err := use(i%2, "one")
				if err != nil {
					t.Error(err)
				}
				if ok {
					first.Add(1)
				}
			})
		}
		all.Wait()
		if first.Load() != 1 {
			t.Errorf("%d first uses, want 1", first.Load())
		}
		if ok, err := use(1, "two"); !ok || err != nil {
			t.Errorf("another secret: %t, %v", ok, err)
		}
	})
}
