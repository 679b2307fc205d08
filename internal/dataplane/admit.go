package dataplane

import (
	"maps"
	"strings"

	"modelgate/api"
	"modelgate/internal/access"
	"modelgate/internal/apierr"
)

// authenticate finds the identity behind the gateway key. Nothing else of the
// headers is read before it is known.
func (x *exchange) authenticate() error {
	id, own, err := x.snap.Authenticate(x.Header, x.entry.Time)
	if err != nil {
		if double := x.ambiguous(); double != nil { // a key that was sent twice is no key
			return double
		}
		return err
	}
	x.setIdentity(id)
	x.ownKey = own
	return nil
}

func (x *exchange) setIdentity(id *access.Identity) {
	x.Identity = id
	e := &x.entry
	e.KeyID, e.KeyName = id.KeyID, id.Name
	e.Organisation, e.Workspace = id.Organisation, id.Workspace
}

// admit reads the headers, and refuses what the identity may not ask for.
func (x *exchange) admit() error {
	err := x.readWishes()
	x.trace()
	if err == nil {
		err = x.ambiguous()
	}
	if err != nil {
		return err
	}
	asked := x.want.config
	x.identify()
	if err := x.snap.Serves(x.Identity); err != nil {
		return err
	}
	return x.keepConfig(asked)
}

// keepConfig refuses a config that a request brought, where the key has one of
// its own that may not be replaced.
func (x *exchange) keepConfig(asked string) error {
	id := x.Identity
	if !id.ConfigFixed || id.Config == "" || asked == "" || asked == id.Config {
		return nil
	}
	own, ok := x.snap.Config(id.Workspace, id.Config)
	if same, found := x.snap.Config(id.Workspace, asked); ok && found && same.Text == own.Text { // by its id
		return nil
	}
	return apierr.New(apierr.Invalid, "this gateway key has the config %s, which requests can't replace; send none", id.Config).
		WithParam("x-gateway-config").WithCode("config_fixed")
}

// identify completes what the request says of itself by what its key says.
func (x *exchange) identify() {
	id := x.Identity
	if x.want.config == "" {
		x.want.config = id.Config
	}
	if len(id.Metadata) > 0 {
		if x.entry.Metadata == nil {
			x.entry.Metadata = make(map[string]string, len(id.Metadata))
		}
		maps.Copy(x.entry.Metadata, id.Metadata)
	}
	x.baggage()
}

// single are the headers beside the gateway's own that decide what a request
// is and whose it is.
var single = [...]string{api.HeaderKey, "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Content-Type", "Content-Encoding"}

// methodHeaders are headers by which some providers take another method than
// that of the request line.
var methodHeaders = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// ambiguous refuses a request that says such a thing twice, or its method in two
// ways.
func (x *exchange) ambiguous() error {
	for _, name := range methodHeaders {
		for _, v := range x.Header[name] {
			if v != x.Method {
				return apierr.New(apierr.Invalid, "the header %s names another method than the request line; send the request with that method", strings.ToLower(name)).
					WithParam(strings.ToLower(name)).WithCode("method_override")
			}
		}
	}
	for _, name := range single {
		if n := len(x.Header[name]); n > 1 {
			return duplicate(name, n)
		}
	}
	return nil
}

func duplicate(name string, n int) error {
	name = strings.ToLower(name)
	return apierr.New(apierr.Invalid, "the header %s was sent %d times; send it once", name, n).
		WithParam(name).WithCode("duplicate_header")
}
