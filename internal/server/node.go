package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// nodeFile is the file in the data folder with the name of the node, and after a space
// where the file is; see filePlace.
const nodeFile = "node"

// nodeName returns the name of all gateways that use a data folder, one after the
// other. The first creates it. A folder that was copied has another name than its
// original, because shared counters would take what the original settles for settled
// by an earlier process of this folder.
func nodeName(data string, logger *slog.Logger) (string, error) {
	path := filepath.Join(data, nodeFile)
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("reading the name of the node: %w", err)
	}
	here, _ := filePlace(path)
	name, place, _ := strings.Cut(strings.TrimSpace(string(raw)), " ")
	switch {
	case !isNodeName(name):
		name = rand.Text()
	case place == here:
		return name, nil
	case place != "": // an earlier version wrote none
		name = rand.Text()
		logger.Warn("data folder was copied or restored; shared counters know it by a new name. Do not run a gateway on the copy and on the original at the same time", "path", path)
	}
	return name, writeNode(path, name)
}

// writeNode writes the name of the node in place, so that the file stays where it is.
func writeNode(path, name string) error {
	err := os.WriteFile(path, []byte(name+"\n"), 0o600)
	if err != nil {
		return fmt.Errorf("writing the name of the node: %w", err)
	}
	place, err := filePlace(path)
	if err == nil && place != "" {
		err = os.WriteFile(path, []byte(name+" "+place+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the place of the node's file: %w", err)
	}
	return nil
}

// isNodeName reports whether a name is one that this program has made: other text is
// replaced, because it may be that of a file that was not written in full.
func isNodeName(name string) bool {
	return len(name) == len(rand.Text()) && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
