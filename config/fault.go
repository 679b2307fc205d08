package config

import "strings"

// Code is the prefix of every message about an invalid config.
const Code = "AB01"

// FieldError is one fault of a config.
type FieldError struct {
	Path    string // for example "$.targets[1].retry.attempts"
	Message string // says what to do; contains no credential
}

// Errors holds all faults of a config: first those of single properties in the
// order of the text, then conflicts between properties.
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

// faults collects the faults of a config while it is read.
type faults []FieldError

func (fs *faults) add(path, message string) {
	switch n := len(*fs); {
	case n < maxFaults:
		*fs = append(*fs, FieldError{path, message})
	case n == maxFaults:
		*fs = append(*fs, FieldError{"$", "has further faults, which are not listed"})
	}
}

// maxFaults is the maximum number of reported faults. Without it a malicious
// text could have a response far larger than itself.
const maxFaults = 100

// err returns the faults as an error, nil if there are none.
func (fs faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	return &Errors{Faults: fs}
}
