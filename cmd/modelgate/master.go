package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"modelgate/internal/secret"
)

// masterFlags are the flags of commands that use the master key.
type masterFlags struct{ now, previous keyFlags }

// keyFlags say where one key is: in a file, in the output of a command or in
// the environment itself, the first of them that is given.
type keyFlags struct {
	file, command *string
	env           string
}

func newMasterFlags(f *flags) masterFlags {
	return masterFlags{
		keyFlags{
			f.text("master-key-file", "", "", "`file` with the master key; or the key itself in the environment variable MODELGATE_MASTER_KEY"),
			f.text("master-key-command", "MODELGATE_MASTER_KEY_COMMAND", "", "`command` of the shell that prints the master key, as one that asks a key service does"),
			"MODELGATE_MASTER_KEY",
		},
		keyFlags{
			f.text("previous-master-key-file", "", "", "`file` with the master key before the present one, while it is changed; or the key itself in MODELGATE_MASTER_KEY_PREVIOUS"),
			f.text("previous-master-key-command", "MODELGATE_MASTER_KEY_PREVIOUS_COMMAND", "", "`command` of the shell that prints the master key before the present one"),
			"MODELGATE_MASTER_KEY_PREVIOUS",
		},
	}
}

// read returns the master key and the one before it. Either may be empty.
func (m masterFlags) read(ctx context.Context, p *program) (master, previous secret.String, err error) {
	if master, err = m.now.read(ctx, p); err != nil {
		return master, previous, fmt.Errorf("reading the master key: %w", err)
	}
	if previous, err = m.previous.read(ctx, p); err != nil {
		return master, previous, fmt.Errorf("reading the previous master key: %w", err)
	}
	return master, previous, nil
}

func (k keyFlags) read(ctx context.Context, p *program) (secret.String, error) {
	switch {
	case *k.file != "":
		b, err := os.ReadFile(*k.file)
		if err != nil {
			return secret.String{}, err
		}
		return keyOrError(string(b), *k.file+" is empty")
	case *k.command != "":
		return commandOutput(ctx, *k.command)
	}
	return secret.New(p.env(k.env)), nil
}

// keyCommandTimeout is how long a command may take to print a key.
const keyCommandTimeout = 30 * time.Second

// commandOutput returns what a command prints. Its errors hold nothing of that.
func commandOutput(ctx context.Context, command string) (secret.String, error) {
	ctx, cancel := context.WithTimeout(ctx, keyCommandTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", command)
	c.WaitDelay = time.Second // for what it started and left behind
	out, err := c.Output()
	if err != nil {
		return secret.String{}, fmt.Errorf("its command failed: %w", err)
	}
	return keyOrError(string(out), "its command printed nothing")
}

// keyOrError returns the key in a text, or an error that says so when there is none.
func keyOrError(text, otherwise string) (secret.String, error) {
	key := secret.New(strings.TrimSpace(text))
	if key.Empty() {
		return key, errors.New(otherwise)
	}
	return key, nil
}
