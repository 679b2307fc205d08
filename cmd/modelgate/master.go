package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"modelgate/internal/base/oserr"
	"modelgate/internal/base/secret"
)

// masterFlags are the flags for the master key.
type masterFlags struct{ now, previous keyFlags }

// keyFlags are the sources of a key: a file, the output of a command or the environment
// itself. The first that is set is used.
type keyFlags struct {
	file, command *string
	name, env     string // of the flags, without "-file" and "-command", and of the variable
}

func newMasterFlags(f *flags) masterFlags {
	return masterFlags{
		keyFlags{
			f.text("master-key-file", "", "", "`file` with the master key; or the key itself in the environment variable MODELGATE_MASTER_KEY"),
			f.text("master-key-command", "MODELGATE_MASTER_KEY_COMMAND", "",
				"shell `command` that prints the master key, for example from a key service"),
			"master-key", "MODELGATE_MASTER_KEY",
		},
		keyFlags{
			f.text("previous-master-key-file", "", "",
				"`file` with the previous master key, during a rotation; or the key itself in MODELGATE_MASTER_KEY_PREVIOUS"),
			f.text("previous-master-key-command", "MODELGATE_MASTER_KEY_PREVIOUS_COMMAND", "",
				"shell `command` that prints the previous master key"),
			"previous-master-key", "MODELGATE_MASTER_KEY_PREVIOUS",
		},
	}
}

// read returns the master key and the previous one. Either may be empty.
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
			return secret.String{}, fmt.Errorf("--%s-file: %w", k.name, oserr.File(err))
		}
		return keyOrError(string(b), fmt.Sprintf("--%s-file: %s is empty", k.name, *k.file))
	case *k.command != "":
		key, err := commandOutput(ctx, *k.command)
		if err != nil {
			return key, fmt.Errorf("--%s-command: %w", k.name, err)
		}
		return key, nil
	}
	return p.secret(k.env)
}

// secret returns the credential in an environment variable, empty if it is not set.
func (p *program) secret(name string) (secret.String, error) {
	s, err := secret.Parse(p.env(name))
	if err != nil {
		return secret.String{}, fmt.Errorf("the environment variable %s %w", name, err)
	}
	return s, nil
}

// keyCommandTimeout is the time limit of a command that prints a key.
const keyCommandTimeout = 30 * time.Second

// commandOutput returns the output of a command. Its errors do not contain the output.
func commandOutput(ctx context.Context, command string) (secret.String, error) {
	ctx, cancel := context.WithTimeout(ctx, keyCommandTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", command)
	c.WaitDelay = time.Second // for processes that it has left running
	out, err := c.Output()
	if err != nil {
		return secret.String{}, fmt.Errorf("the command failed: %w; run it by hand to see why", err)
	}
	return keyOrError(string(out), "the command printed nothing")
}

// keyOrError returns the key in a text, or an error with the message otherwise if it is
// empty.
func keyOrError(text, otherwise string) (secret.String, error) {
	key, err := secret.Parse(text)
	if err == nil && key.Empty() {
		err = errors.New(otherwise)
	}
	return key, err
}
