package access

import (
	"cmp"
	"encoding/hex"
)

// Holder names whose sessions and tasks those of a caller are: its key, or the user of a token,
// in its workspace. Tokens of an organisation's issuers are named by their hash too, since two
// issuers may have a user of the same name.
func (id *Identity) Holder() string {
	name := cmp.Or(id.KeyID, "user "+id.UserID)
	if id.Type == Token {
		name += " " + hex.EncodeToString(id.Hash[:])
	}
	return id.Organisation + " " + id.Workspace + " " + name
}
