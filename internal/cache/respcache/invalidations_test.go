package respcache_test

import (
	"testing"

	"modelgate/internal/cache/respcache"
)

func TestInvalidationsCoverEarlierEntriesTheySelect(t *testing.T) {
	other := respcache.Tenant{Organisation: "x", Workspace: "w"}
	for _, tt := range []struct {
		name    string
		owner   respcache.Tenant
		sel     respcache.Selector
		covered bool
	}{
		{"everything", owner, respcache.Selector{}, true},
		{"namespace", owner, respcache.Selector{Namespace: "n"}, true},
		{"another namespace", owner, respcache.Selector{Namespace: "m"}, false},
		{"config", owner, respcache.Selector{Config: "c"}, true},
		{"another config", owner, respcache.Selector{Config: "d"}, false},
		{"key", owner, respcache.Selector{KeyID: "k"}, true},
		{"one of two fields", owner, respcache.Selector{KeyID: "k", Namespace: "m"}, false},
		{"another tenant", other, respcache.Selector{}, false},
	} {
		for way, apply := range map[string]func(*respcache.Invalidations, respcache.Mark){
			"added":  (*respcache.Invalidations).Add,
			"stored": func(v *respcache.Invalidations, m respcache.Mark) { v.Replace([]respcache.Mark{m}) },
		} {
			var v respcache.Invalidations
			v.Add(respcache.Mark{Owner: owner, Generation: 5, Selector: respcache.Selector{Namespace: "another one"}})
			if v.Covers(entry(nil)) {
				t.Fatal("an entry of the latest generation is covered")
			}
			apply(&v, respcache.Mark{Owner: tt.owner, Selector: tt.sel, Generation: 6})
			if got := v.Covers(entry(nil)); got != tt.covered {
				t.Errorf("%s, %s: covered %v, want %v", tt.name, way, got, tt.covered)
			}
			v.Add(respcache.Mark{Owner: tt.owner, Selector: respcache.Selector{Namespace: "a third one"}, Generation: 7})
			if got := v.Covers(entry(nil)); got != tt.covered {
				t.Errorf("%s, %s, before another invalidation: covered %v, want %v", tt.name, way, got, tt.covered)
			}
			later := entry(func(e *respcache.Entry) { e.Owner, e.Generation = tt.owner, v.Generation(tt.owner) })
			if v.Generation(tt.owner) != 7 || v.Covers(later) {
				t.Errorf("%s, %s: an entry that began later is covered", tt.name, way)
			}
		}
	}
}

// A gateway that does not know the latest invalidations yet does not know whether
// they select an entry of another gateway.
func TestEntriesOfUnknownGenerationsAreCovered(t *testing.T) {
	var v respcache.Invalidations
	if !v.Covers(entry(nil)) {
		t.Error("an entry of generation 5 is served where no invalidation is known")
	}
	v.Add(respcache.Mark{Owner: owner, Generation: 4, Selector: respcache.Selector{Namespace: "another"}})
	if !v.Covers(entry(nil)) {
		t.Error("an entry of generation 5 is served where 4 is the latest")
	}
}

// Between an invalidation and the next look at the database, an older state may be
// published.
func TestAnOlderStateDoesNotRemoveInvalidations(t *testing.T) {
	var v respcache.Invalidations
	first := respcache.Mark{Owner: owner, Generation: 5, Selector: respcache.Selector{Namespace: "another"}}
	v.Replace([]respcache.Mark{first})
	v.Add(respcache.Mark{Owner: owner, Generation: 6})
	v.Replace([]respcache.Mark{first})
	if !v.Covers(entry(nil)) {
		t.Error("an invalidation was lost")
	}
	v.Replace([]respcache.Mark{{Owner: owner, Generation: 7}}) // all became one of everything
	if !v.Covers(entry(nil)) || v.Generation(owner) != 7 {
		t.Errorf("generation %d", v.Generation(owner))
	}
}
