package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// storedSession is a session at a gateway.
type storedSession struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// sessionsFile returns the file with the sessions of the user.
func sessionsFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "modelgate", "sessions.json"), err
}

// readSessions returns the stored sessions by the base address of their gateway.
func readSessions() (map[string]storedSession, error) {
	list := make(map[string]storedSession)
	path, err := sessionsFile()
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

// changeSessions changes the stored sessions. Others never see a part of the file, nor can
// they read it.
func changeSessions(change func(map[string]storedSession)) error {
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
	path, err := sessionsFile()
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
