package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"modelgate/internal/base/secret"
)

// StoredSession is a session at a gateway.
type StoredSession struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// SessionsFile returns the file with the sessions of the user.
func SessionsFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "modelgate", "sessions.json"), err
}

// readSessions returns the stored sessions by the base address of their gateway.
func readSessions() (map[string]StoredSession, error) {
	list := make(map[string]StoredSession)
	path, err := SessionsFile()
	if err != nil {
		return list, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err == nil && json.Unmarshal(text, &list) != nil {
		err = fmt.Errorf("%s is damaged; delete it and sign in again", path)
	}
	return list, err
}

// ChangeSessions changes the stored sessions. Others never see a part of the file, nor can
// they read it.
func ChangeSessions(change func(map[string]StoredSession)) error {
	list, err := readSessions()
	if err != nil {
		return err
	}
	for base, s := range list {
		if !time.Now().Before(s.ExpiresAt) {
			delete(list, base)
		}
	}
	change(list)
	path, err := SessionsFile()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), "sessions-*") // with the mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.Write(append(text, '\n'))
	if err := errors.Join(err, fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), path)
}

// Session returns the token of the stored session at a gateway, empty if there is none.
func Session(base string) secret.String {
	list, err := readSessions()
	if s, ok := list[base]; err == nil && ok && time.Now().Before(s.ExpiresAt) {
		return secret.New(s.Token)
	}
	return secret.String{}
}
