package people

import "time"

// Groups are all groups of a user of an organisation, as a source knows them.
type Groups struct {
	Organisation, User string // ids; the user is a member

	// Source names the source, such as "oidc:" and the id of an identity provider. Each has
	// its own roles: those of SCIM and of other sources stay.
	Source string

	// Names are the names of all groups. Those without a role give none.
	Names []string

	Now time.Time
}
