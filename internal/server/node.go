package server

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// nodeFile is the file in the data folder with the name of the node, and after a space
// where the file is; see place.
const nodeFile = "node"

// node is the name under which shared counters know the gateways that use a data folder,
// one after the other. They take what is settled under it for settled by an earlier
// process, so that no two gateways that run at the same time may have the same.
type node struct {
	name string
	file *os.File // locked; nil for a name that is not the folder's
}

// openNode returns the node of a data folder. Its first gateway creates the name. While
// a gateway runs, others on the folder get names of their own. So does a folder that was
// copied, also as the snapshot of a disk that another machine uses. Boot names the current
// run of this machine; see bootID. The caller closes the node when it settles nothing more.
func openNode(data, boot string, logger *slog.Logger) (*node, error) {
	path := filepath.Join(data, nodeFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the name of the node: %w", err)
	}
	locked, err := lockFile(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking the name of the node: %w", err)
	}
	if !locked {
		f.Close()
		logger.Info("another gateway uses the data folder; this one has its own name in shared counters", "path", path)
		return &node{name: rand.Text()}, nil
	}
	name, err := readNode(f, boot, logger)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("reading the name of the node: %w", err)
	}
	return &node{name, f}, nil
}

// close lets another gateway have the name.
func (n *node) close() {
	if n != nil && n.file != nil {
		n.file.Close()
	}
}

// readNode returns the name in the file, which it writes if there is none or that of
// another file.
func readNode(f *os.File, boot string, logger *slog.Logger) (string, error) {
	raw, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	inode, device, err := fileNumbers(f)
	if err != nil {
		return "", err
	}
	here := place(inode, device, boot)
	name, before, _ := strings.Cut(strings.TrimSpace(string(raw)), " ")
	switch {
	case !isNodeName(name):
		name = rand.Text()
	case before == here:
		return name, nil
	case before != "" && before != inode: // earlier versions wrote nothing, or the inode only
		name = rand.Text()
		if strings.HasPrefix(before, place(inode, device, "")) {
			logger.Info("the machine was restarted, or runs on the snapshot of a disk; shared counters know this gateway by a new name", "path", f.Name())
		} else {
			logger.Warn("data folder was copied or restored; shared counters know it by a new name. Do not run a gateway on the copy and on the original at the same time", "path", f.Name())
		}
	}
	text := strings.TrimSpace(name+" "+here) + "\n"
	if err := f.Truncate(0); err != nil {
		return "", err
	}
	_, err = f.WriteAt([]byte(text), 0)
	return name, err
}

// place returns what a copy of a file does not share with it: the inode, or in a copy of the
// disk the device, or on another machine the run of the machine. Empty is unknown.
func place(inode, device, boot string) string {
	if inode == "" {
		return ""
	}
	return inode + "-" + device + "-" + boot
}

// bootID returns a name of the current run of this machine, which no other has. Empty means
// unknown. Containers have that of their host.
func bootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// isNodeName reports whether a name is one that this program has made: other text is
// replaced, because it may be that of a file that was not written in full.
func isNodeName(name string) bool {
	return len(name) == len(rand.Text()) && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
