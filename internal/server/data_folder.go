package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"modelgate/internal/base/oserr"
)

// othersWrite are the permissions of a folder that let users other than its owner put
// files into it, or exchange those in it.
const othersWrite = 0o022

// openFolder creates the data folder if it is missing. It takes the folder from another
// owner, and the right to write from a group and others: who can exchange the database is
// the administrator of the gateway.
func (s *Server) openFolder() error {
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return fmt.Errorf("data folder (--data or MODELGATE_DATA): %w", oserr.File(err))
	}
	info, err := os.Stat(s.Data)
	if err != nil {
		return fmt.Errorf("data folder (--data or MODELGATE_DATA): %w", oserr.File(err))
	}
	owner := ownerOf(info)
	if err := s.takeFolder(owner); err != nil {
		return err
	}
	mode := info.Mode().Perm()
	if mode&othersWrite == 0 {
		return nil
	}
	if owner.sharesWith(thisProcess(), mode) {
		s.Logger.Warn("a group can write to the data folder; only the gateway should be in it", "folder", s.Data, "group", owner.group)
		return nil
	}
	if err := os.Chmod(s.Data, mode&^othersWrite); err != nil {
		return fmt.Errorf("other users can write to the data folder %s (mode %04o), and its mode cannot be changed; run chmod go-w on it as its owner: %w", s.Data, mode, err)
	}
	s.Logger.Warn("other users could write to the data folder; its mode was changed", "folder", s.Data,
		"mode", fmt.Sprintf("%04o", mode&^othersWrite))
	return nil
}

// CheckFolder returns what a start with this data folder would change in it or warn of, empty
// for nothing, and the error with which it would fail. It changes nothing, and succeeds for a
// folder that is missing.
func CheckFolder(data string) (change string, err error) {
	info, err := os.Stat(data)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("data folder (--data or MODELGATE_DATA): %w", oserr.File(err))
	}
	owner, self, mode := ownerOf(info), thisProcess(), info.Mode().Perm()
	switch {
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a folder; name another one with --data", data)
	case !owner.trustedBy(self) && self.user != 0:
		return "", foreignFolder(data, owner, self)
	case !owner.trustedBy(self):
		return fmt.Sprintf("it belongs to another user (id %d), and a start as root makes root its owner", owner.user), nil
	case mode&othersWrite != 0 && owner.sharesWith(self, mode):
		return "a group can write to it; only the gateway should be in that group", nil
	case mode&othersWrite != 0:
		return fmt.Sprintf("other users can write to it (mode %04o), and a start takes that right from them", mode), nil
	}
	return "", nil
}

func foreignFolder(data string, owner, self folderOwner) error {
	return fmt.Errorf("the data folder %s belongs to another user (id %d), who can exchange its files; run the gateway as that user, or chown the folder to the user of the gateway (id %d)", data, owner.user, self.user)
}

// takeFolder makes this process the owner of a data folder and of all that is in it. Only
// root can; for others a folder of another user, except root, is an error.
func (s *Server) takeFolder(owner folderOwner) error {
	self := thisProcess()
	if owner.trustedBy(self) {
		return nil
	}
	if self.user != 0 {
		return foreignFolder(s.Data, owner, self)
	}
	if err := chownAll(s.Data, owner.user); err != nil {
		return fmt.Errorf("the data folder %s belongs to another user (id %d), who can exchange its files, and its owner cannot be changed; run the gateway as that user, or mount the folder with root as its owner: %w", s.Data, owner.user, err)
	}
	s.Logger.Warn("the data folder belonged to another user; it now belongs to root", "folder", s.Data, "before", owner.user)
	return nil
}

// chownAll makes root the owner of a folder, and then of all in it that belongs to a user.
// It follows no links out of the folder.
func chownAll(folder string, user int) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Chown(".", 0, -1); err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || ownerOf(info).user != user {
			return err
		}
		return root.Lchown(path, 0, -1)
	})
}

// folderOwner is the owner of a folder, or the user and the groups of a process.
type folderOwner struct {
	known       bool // false on systems without such numbers
	user, group int
	groups      []int // further groups of a process
}

// trustedBy reports whether the owner may exchange the files of a process: it is the user
// of the process, or root.
func (o folderOwner) trustedBy(self folderOwner) bool {
	return !o.known || o.user == self.user || o.user == 0
}

// sharesWith reports whether root gives a folder of this mode to a group of a process that
// is not root, such as one for volumes: without the group the process could not write.
func (o folderOwner) sharesWith(self folderOwner, mode fs.FileMode) bool {
	inGroup := o.group == self.group || slices.Contains(self.groups, o.group)
	return o.known && o.user == 0 && self.user != 0 && inGroup && o.group != 0 && mode&othersWrite == 0o020
}
