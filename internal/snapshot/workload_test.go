package snapshot_test

import (
	"net/http"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/snapshot"
)

func TestShortKeysExpireAndAreNotSentToProviders(t *testing.T) {
	now := time.UnixMilli(1_000_000_000)
	service := &access.Identity{KeyID: "k", Hash: access.HashKey("a service key of a test"), Scopes: []access.Scope{"models.list"},
		ExpiresAt: now.Add(5 * time.Minute)}
	replaced := *service
	replaced.Hash, replaced.ExpiresAt = access.HashKey("the secret before"), now.Add(time.Minute)
	one, err := snapshot.Build(snapshot.Input{Keys: []*access.Identity{&replaced, service},
		Workloads: []snapshot.Workload{{ID: "w", Slug: "ci", Key: "k", Signing: secret.New("one")}, {ID: "none", Key: "none", Signing: secret.New("two")}}})
	if err != nil {
		t.Fatal(err)
	}
	key, id, err := one.WorkloadKey(access.WorkloadGrant{Workload: "w", Subject: "s", Expires: now.Add(time.Hour).Unix()}, now)
	if err != nil || !id.ExpiresAt.Equal(service.ExpiresAt) {
		t.Fatalf("the key expires with %v, %v; want with its service key", id.ExpiresAt, err)
	}
	for after, valid := range map[time.Duration]bool{0: true, 4 * time.Minute: true, 5 * time.Minute: false} {
		_, _, err := one.Authenticate(http.Header{"X-Api-Key": {key.Reveal()}}, now.Add(after))
		if (err == nil) != valid {
			t.Errorf("after %s: %v", after, err)
		}
	}
	if !one.IsCredential(key.Reveal(), now.Add(time.Hour)) {
		t.Error("a key that has expired may be sent to a provider")
	}
	if !access.HasToken("my key is " + key.Reveal() + ", see") {
		t.Error("the key is not recognised in a text")
	}
	if _, _, err := one.WorkloadKey(access.WorkloadGrant{Workload: "none"}, now); err == nil {
		t.Error("a workload identity without a service key gives keys")
	}
	two, err := snapshot.Build(snapshot.Input{Keys: []*access.Identity{service},
		Workloads: []snapshot.Workload{{ID: "w", Slug: "ci", Key: "k", Signing: secret.New("another")}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := two.Authenticate(http.Header{"X-Api-Key": {key.Reveal()}}, now); err == nil {
		t.Error("a key is valid after its signing secret was replaced")
	}
}
