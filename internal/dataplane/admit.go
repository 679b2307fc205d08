package dataplane

import "modelgate/internal/access"

// admit reads the headers and finds the identity behind the gateway key.
func (x *exchange) admit() error {
	err := x.readWishes()
	x.trace()
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
	x.entry.KeyID, x.entry.KeyName = id.KeyID, id.Name
	x.entry.Organisation, x.entry.Workspace = id.Organisation, id.Workspace
}
