package main

import (
	"regexp"
	"strings"
)

// failure is a case that failed.
type failure struct {
	folder  string // package of the test
	name    string // with its parents, as go test prints it
	message string // first line that it reported, cut to maxMessage bytes
}

// maxMessage is how much of a message is kept, in bytes.
const maxMessage = 160

var (
	failedCase    = regexp.MustCompile(`^\s*--- FAIL: (\S+) \(`)
	failedMessage = regexp.MustCompile(`^\s+\w+\.go:\d+: (.*)$`)
	brokenList    = regexp.MustCompile(`(?m)^conformance: statements that do not hold: (.*)$`)
)

// readFailures returns the cases that an output of go test reports as failed,
// without those that failed only because a case within them did.
func readFailures(folder string, out []byte) []failure {
	var list []failure
	open := failure{}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		if m := failedCase.FindStringSubmatch(line); m != nil {
			open = failure{folder: folder, name: m[1]}
			continue
		}
		m := failedMessage.FindStringSubmatch(line)
		if m == nil || open.name == "" {
			continue
		}
		open.message = strings.ToValidUTF8(m[1][:min(len(m[1]), maxMessage)], "")
		list = append(list, open)
		open = failure{}
	}
	if open.name != "" {
		list = append(list, open)
	}
	return list
}

// readBroken returns the statements that the conformance suite reports as
// broken.
func readBroken(out []byte) []string {
	if m := brokenList.FindSubmatch(out); m != nil {
		return strings.Fields(string(m[1]))
	}
	return nil
}

// top returns the test that holds the case, as the page writes it.
func (f failure) top() string {
	name, _, _ := strings.Cut(f.name, "/")
	if f.folder == conformance {
		return name
	}
	return f.folder + "." + name
}

// path returns the case as proofs name it.
func (f failure) path() string {
	if f.folder == conformance {
		return f.name
	}
	return f.folder + "." + f.name
}

// names reports whether the name of the case has the statement.
func (f failure) names(statement string) bool { return strings.Contains(f.name, statement) }
