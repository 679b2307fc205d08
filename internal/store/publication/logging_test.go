package publication_test

import (
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/storetest"
)

func TestAKeyIsPublishedWithWhatIsKeptAboveIt(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		storetest.Exec(t, dsn, `UPDATE organisations SET settings = '{"request_logging":"full","request_logging_override":true,"jwt":{"jwks":{"keys":[]}}}'`)
		storetest.Exec(t, dsn, `UPDATE workspaces SET settings = '{"request_logging":"metadata","debug_log":true}'`)
		k := inDefault("ci")
		k.Defaults = []byte(`{"request_logging":"none"}`)
		mustCreate(t, db, k)
		wide := sampleKey("wide")
		wide.Type, wide.Organisation, wide.Workspace = access.OrganisationService, store.DefaultOrganisation, ""
		mustCreate(t, db, wide)
		p, err := publication.Load(t.Context(), db, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]access.Logging{
			"ci":   {Organisation: access.LogFull, Override: true, Workspace: access.LogMetadata, Key: access.LogNone},
			"wide": {Organisation: access.LogFull, Override: true},
		}
		for _, id := range p.Identities {
			if id.Logging != want[id.Name] {
				t.Errorf("%s: %+v, want %+v", id.Name, id.Logging, want[id.Name])
			}
			delete(want, id.Name)
		}
		if len(want) != 0 {
			t.Errorf("not published: %v", want)
		}
		if w := p.Issuers[0].Workspaces[0]; w.Logging != (access.Logging{Organisation: access.LogFull, Override: true, Workspace: access.LogMetadata}) {
			t.Errorf("tokens of a workspace: %+v", w.Logging)
		}
		own := access.Identity{Workspace: store.DefaultWorkspace, Logging: access.Logging{Key: access.LogFull}}
		if got := p.LoggingFor(&own); got.Workspace != access.LogMetadata || got.Key != access.LogFull {
			t.Errorf("a key of the file: %+v", got)
		}
	})
}
