package server

import (
	"io/fs"
	"testing"
)

func TestOwnersOfTheDataFolder(t *testing.T) {
	root, user := folderOwner{known: true}, folderOwner{known: true, user: 1000, group: 1000, groups: []int{1000, 2000}}
	other := folderOwner{known: true, user: 1001, group: 1001}
	for _, tt := range []struct {
		name            string
		owner, self     folderOwner
		mode            fs.FileMode
		trusted, shares bool
	}{
		{"its own", user, user, 0o700, true, false},
		{"of root, run as root", root, root, 0o755, true, false},
		{"of root, run as a user", root, user, 0o755, true, false},
		{"of another user", other, user, 0o755, false, false},
		{"of another user, open to all", other, user, 0o777, false, false},
		{"of a user, run as root", user, root, 0o700, false, false},
		{"a volume for a group", folderOwner{known: true, group: 2000}, user, 0o775, true, true},
		{"a volume for a group, open to all", folderOwner{known: true, group: 2000}, user, 0o777, true, false},
		{"a volume for another group", folderOwner{known: true, group: 3000}, user, 0o775, true, false},
		{"a group's folder of another user", folderOwner{known: true, user: 1001, group: 2000}, user, 0o770, false, false},
		{"a group's folder, run as root", folderOwner{known: true, group: 2000}, root, 0o770, true, false},
		{"its own, for its group", user, user, 0o770, true, false},
		{"a system without owners", folderOwner{}, folderOwner{}, 0o777, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.owner.trustedBy(tt.self); got != tt.trusted {
				t.Errorf("trusted: %t, want %t", got, tt.trusted)
			}
			if got := tt.owner.sharesWith(tt.self, tt.mode); got != tt.shares {
				t.Errorf("shared: %t, want %t", got, tt.shares)
			}
		})
	}
}
