package config

import "strings"

// Code is what every message about an invalid config begins with.
const Code = "AB01"

// FieldError is one thing wrong with a config.
type FieldError struct {
	Path    string // as "$.targets[1].retry.attempts"
	Message string // says what to do; carries no credential
}

// Errors are all faults of a config: first those of single properties in the
// order of the text, then those of properties that don't fit together.
type Errors struct {
	Faults []FieldError
}

// Error returns the faults on one line, prefixed with the code.
func (e *Errors) Error() string {
	var b strings.Builder
	b.WriteString(Code + ": invalid config: ")
	for i, f := range e.Faults {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.Path + " " + f.Message)
	}
	return b.String()
}

// faults collects what is wrong while a config is read.
type faults []FieldError

func (fs *faults) add(path, message string) {
	switch n := len(*fs); {
	case n < maxFaults:
		*fs = append(*fs, FieldError{path, message})
	case n == maxFaults:
		*fs = append(*fs, FieldError{"$", "has further faults, which are not listed"})
	}
}

// maxFaults is how many faults are listed, as many as a person mends at once. A
// hostile text could otherwise have a response far larger than itself.
const maxFaults = 100

// err returns the faults as an error, nil when there are none.
func (fs faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	return &Errors{Faults: fs}
}
