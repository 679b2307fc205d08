package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// nodeFile is the file in the data folder with the name of the node.
const nodeFile = "node"

// nodeName returns the name of all gateways that use a data folder, one after the
// other. The first creates it.
func nodeName(data string) (string, error) {
	path := filepath.Join(data, nodeFile)
	raw, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(raw)); err == nil && isNodeName(name) {
		return name, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("reading the name of the node: %w", err)
	}
	name := rand.Text()
	if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("writing the name of the node: %w", err)
	}
	return name, nil
}

// isNodeName reports whether a name is one that this program has made: other text is
// replaced, because it may be that of a file that was not written in full.
func isNodeName(name string) bool {
	return len(name) == len(rand.Text()) && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
