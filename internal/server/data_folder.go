package server

import (
	"fmt"
	"os"
)

// othersWrite are the permissions of a folder that let users other than its owner put
// files into it, or exchange those in it.
const othersWrite = 0o022

// openFolder creates the data folder if it is missing. It takes the right to write from a
// group and others: who can exchange the database is the administrator of the gateway.
func (s *Server) openFolder() error {
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return fmt.Errorf("creating the data folder: %w", err)
	}
	info, err := os.Stat(s.Data)
	if err != nil {
		return fmt.Errorf("reading the data folder: %w", err)
	}
	mode := info.Mode().Perm()
	if mode&othersWrite == 0 {
		return nil
	}
	if err := os.Chmod(s.Data, mode&^othersWrite); err != nil {
		return fmt.Errorf("other users can write to the data folder %s (mode %04o), and its mode cannot be changed; run chmod go-w on it as its owner: %w", s.Data, mode, err)
	}
	s.Logger.Warn("other users could write to the data folder; its mode was changed", "folder", s.Data, "mode", fmt.Sprintf("%04o", mode&^othersWrite))
	return nil
}
