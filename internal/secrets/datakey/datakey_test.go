package datakey_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/storage/sqlite"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

const (
	canary    = "canary-7f3a91"
	oldMaster = "the old master key of a test"
	newMaster = "the new master key of a test"
	acme      = store.DefaultOrganisation
)

func TestARingOpensWhatItSealed(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		before := mustOrganisation(t, db)
		sealed := mustSeal(t, datakey.New(db, mustBox(t, oldMaster)), canary)
		after := mustOrganisation(t, db)
		if strings.Contains(sealed+after.DataKey, canary) || !secret.SealedByDataKey(sealed) || after.DataKey == "" {
			t.Fatalf("Seal = %q with the data key %q", sealed, after.DataKey)
		}
		if after.UpdatedAt != before.UpdatedAt || after.Name != before.Name || !reflect.DeepEqual(after.Settings, before.Settings) {
			t.Errorf("making a data key changed the organisation from %+v to %+v", before, after)
		}
		ring := datakey.New(open(), mustBox(t, oldMaster))
		mustOpen(t, ring, sealed)
		mustOpen(t, ring, mustBox(t, oldMaster).Seal(secret.New(canary)))
		mustSeal(t, ring, "more")
		if again := mustOrganisation(t, db).DataKey; again != after.DataKey {
			t.Error("the second secret made another data key")
		}
	})
}

func TestSignaturesAreOfOneOrganisationAndText(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		if _, err := datakey.New(db, nil).Sign(t.Context(), acme, "a text"); apierr.From(err).Code != "no_master_key" {
			t.Errorf("Sign without a master key: %v", err)
		}
		if ok, err := datakey.New(db, mustBox(t, oldMaster)).Verify(t.Context(), acme, "a text", "x"); ok || err != nil || mustOrganisation(t, db).DataKey != "" {
			t.Errorf("Signed without a data key: %t, %v", ok, err)
		}
		signature, err := datakey.New(db, mustBox(t, oldMaster)).Sign(t.Context(), acme, "a text")
		if err != nil {
			t.Fatal(err)
		}
		ring := datakey.New(open(), mustBox(t, oldMaster))
		for _, tt := range []struct {
			text, signature string
			want            bool
		}{{"a text", signature, true}, {"another", signature, false}, {"a text", signature[1:], false}, {"a text", "", false}} {
			if ok, err := ring.Verify(t.Context(), acme, tt.text, tt.signature); ok != tt.want || err != nil {
				t.Errorf("Verify(%q, %q) = %t, %v", tt.text, tt.signature, ok, err)
			}
		}
		if _, err := datakey.New(db, mustBox(t, newMaster)).Verify(t.Context(), acme, "a text", signature); apierr.From(err).Code != "wrong_master_key" {
			t.Errorf("Signed with another master key: %v", err)
		}
	})
}

func TestWritersAtOnceUseOneDataKey(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		rings := []*datakey.Keyring{datakey.New(open(), mustBox(t, oldMaster)), datakey.New(open(), mustBox(t, oldMaster))}
		var texts [8]string
		var errs [8]error
		var writers sync.WaitGroup
		for i := range texts {
			writers.Go(func() { texts[i], errs[i] = rings[i%2].Seal(t.Context(), acme, secret.New(canary)) })
		}
		writers.Wait()
		for i, sealed := range texts {
			if errs[i] != nil {
				t.Fatalf("writer %d: %v", i, errs[i])
			}
			mustOpen(t, rings[(i+1)%2], sealed)
		}
	})
}

func TestARingRefuses(t *testing.T) {
	db := storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db")
	ring := datakey.New(db, mustBox(t, oldMaster))
	sealed := mustSeal(t, ring, canary)
	other := mustBox(t, oldMaster).NewDataKey("other")
	for _, tt := range []struct {
		name string
		open func() (secret.String, error)
		code string
	}{
		{"without a master key", func() (secret.String, error) {
			return datakey.New(db, nil).Open(t.Context(), acme, sealed)
		}, "no_master_key"},
		{"sealing without a master key", func() (secret.String, error) {
			text, err := datakey.New(db, nil).Seal(t.Context(), acme, secret.New(canary))
			return secret.New(text), err
		}, "no_master_key"},
		{"with another master key", func() (secret.String, error) {
			return datakey.New(db, mustBox(t, newMaster)).Open(t.Context(), acme, sealed)
		}, "wrong_master_key"},
		{"sealing with another master key", func() (secret.String, error) {
			text, err := datakey.New(db, mustBox(t, newMaster)).Seal(t.Context(), acme, secret.New(canary))
			return secret.New(text), err
		}, "wrong_master_key"},
		{"for another organisation", func() (secret.String, error) { return ring.OpenWith("other", other, sealed) }, ""},
		{"with the wrapped key of another", func() (secret.String, error) {
			return datakey.New(db, mustBox(t, oldMaster)).OpenWith("other", mustOrganisation(t, db).DataKey, sealed)
		}, "wrong_master_key"},
		{"an altered text", func() (secret.String, error) {
			return ring.Open(t.Context(), acme, sealed[:20]+strings.ToLower(sealed[20:]))
		}, ""},
		{"for nobody", func() (secret.String, error) { return ring.Open(t.Context(), "nobody", sealed) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.open()
			if err == nil || !got.Empty() || strings.Contains(err.Error(), canary) {
				t.Fatalf("got %q, %v; want an error", got.Reveal(), err)
			}
			e, _ := errors.AsType[*apierr.Error](err)
			if tt.code != "" && (e == nil || e.Code != tt.code) {
				t.Errorf("error %v, want code %s", err, tt.code)
			}
		})
	}
}

func TestAStartReportsALostMasterKey(t *testing.T) {
	keys := map[string]string{"acme": mustBox(t, oldMaster).NewDataKey("acme")}
	both, err := secret.NewBox(secret.New(newMaster), secret.New(oldMaster))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		box  *secret.Box
		keys map[string]string
		says string
	}{
		{"nothing sealed", nil, nil, ""},
		{"the right one", mustBox(t, oldMaster), keys, ""},
		{"a previous one", both, keys, ""},
		{"none", nil, keys, "no master key; set MODELGATE_MASTER_KEY"},
		{"another", mustBox(t, newMaster), keys, "MODELGATE_MASTER_KEY_PREVIOUS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := datakey.New(nil, tt.box).Check(tt.keys)
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("Check = %v, want %q in one line", err, tt.says)
			}
		})
	}
}

func TestARotationLeavesValuesAsTheyAre(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		both, err := secret.NewBox(secret.New(newMaster), secret.New(oldMaster))
		if err != nil {
			t.Fatal(err)
		}
		mustRotate(t, db, both, datakey.Keep) // nothing to do yet
		running := datakey.New(open(), mustBox(t, oldMaster))
		sealed := mustSeal(t, running, canary)
		before := mustOrganisation(t, db)

		mustRotate(t, db, both, datakey.DryRun, true)
		if got := mustOrganisation(t, db); got.DataKey != before.DataKey {
			t.Error("a dry run changed the data key")
		}
		if _, err := datakey.Rotate(t.Context(), db, mustBox(t, newMaster), datakey.Keep); !errors.Is(err, secret.ErrWrongKey) {
			t.Errorf("a rotation without the previous key: %v, want %v", err, secret.ErrWrongKey)
		}
		mustRotate(t, db, both, datakey.Keep, true)
		mustRotate(t, db, both, datakey.Keep, false)
		after := mustOrganisation(t, db)
		if after.DataKey == before.DataKey || after.UpdatedAt != before.UpdatedAt {
			t.Errorf("a rotation made %+v of %+v", after, before)
		}
		mustOpen(t, datakey.New(open(), mustBox(t, newMaster)), sealed)
		mustOpen(t, datakey.New(open(), both), sealed)
		mustOpen(t, running, sealed) // it was given the old master key alone
		if _, err := datakey.New(open(), mustBox(t, oldMaster)).Open(t.Context(), acme, sealed); err == nil {
			t.Error("the old master key alone still opens after the rotation")
		}
	})
}

func TestARotationIsOfAllOrganisationsOrOfNone(t *testing.T) {
	path := "file:" + t.TempDir() + "/modelgate.db"
	db := storetest.Open(t, path)
	mustSeal(t, datakey.New(db, mustBox(t, oldMaster)), canary)
	mustAdd(t, path, "z", mustBox(t, "a master key that nobody has").NewDataKey("z"))
	both, err := secret.NewBox(secret.New(newMaster), secret.New(oldMaster))
	if err != nil {
		t.Fatal(err)
	}
	before := mustOrganisation(t, db).DataKey
	if list, err := datakey.Rotate(t.Context(), db, both, datakey.Keep); !errors.Is(err, secret.ErrWrongKey) || list != nil {
		t.Errorf("Rotate = %v, %v, want %v", list, err, secret.ErrWrongKey)
	}
	if mustOrganisation(t, db).DataKey != before {
		t.Error("a rotation that failed changed a data key")
	}
}

func mustBox(t *testing.T, master string) *secret.Box {
	t.Helper()
	box, err := secret.NewBox(secret.New(master))
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func mustOrganisation(t *testing.T, db *store.DB) store.Organisation {
	t.Helper()
	o, err := db.Organisation(t.Context(), acme)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func mustSeal(t *testing.T, ring *datakey.Keyring, plain string) string {
	t.Helper()
	sealed, err := ring.Seal(t.Context(), acme, secret.New(plain))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// mustOpen opens the canary.
func mustOpen(t *testing.T, ring *datakey.Keyring, sealed string) {
	t.Helper()
	if got, err := ring.Open(t.Context(), acme, sealed); err != nil || got.Reveal() != canary {
		t.Errorf("Open = %q, %v, want the canary", got.Reveal(), err)
	}
}

// mustRotate rotates and wants these organisations to be rewrapped or not.
func mustRotate(t *testing.T, db *store.DB, master *secret.Box, how datakey.Mode, want ...bool) {
	t.Helper()
	list, err := datakey.Rotate(t.Context(), db, master, how)
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, r := range list {
		got = append(got, r.Rewrapped)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Rotate rewrapped %v, want %v", got, want)
	}
}

// mustAdd adds an organisation with a data key.
func mustAdd(t *testing.T, path, id, key string) {
	t.Helper()
	file, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const text = `
		INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
		VALUES ($1, $1, '', '', '{}', $2, 'active', 0, 0)`
	storetest.ExecOn(t, file.Write, text, id, key)
}

func TestADataKeyThatWasReplacedSealsNoMore(t *testing.T) {
	db := storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db")
	running := datakey.New(db, mustBox(t, oldMaster))
	mustSeal(t, running, canary)
	o := mustOrganisation(t, db)
	o.DataKey = mustBox(t, oldMaster).NewDataKey(o.ID)
	if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.UpdateOrganisation(t.Context(), o) }); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, datakey.New(db, mustBox(t, oldMaster)), mustSeal(t, running, canary))
}
