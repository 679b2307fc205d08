package dataplane

import (
	"strings"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
)

// admit reads the headers and finds the identity behind the gateway key.
func (x *exchange) admit() error {
	err := x.readWishes()
	x.trace()
	if err == nil {
		err = x.ambiguous()
	}
	if err != nil {
		return err
	}
	id, own, err := x.snap.Authenticate(x.Header, x.entry.Time)
	if err != nil {
		return err
	}
	x.identify(id)
	x.ownKey = own
	return nil
}

func (x *exchange) identify(id *access.Identity) {
	x.Identity = id
	if x.want.config == "" {
		x.want.config = id.Config
	}
	x.entry.KeyID, x.entry.KeyName = id.KeyID, id.Name
	x.entry.Organisation, x.entry.Workspace = id.Organisation, id.Workspace
}

// single are the headers beside the gateway's own that decide what a request
// is and whose it is.
var single = [...]string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Content-Type", "Content-Encoding"}

// ambiguous refuses a request that says such a thing twice.
func (x *exchange) ambiguous() error {
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
