package access

import "cmp"

// LogLevel is how much is kept of an exchange. The larger keeps more.
type LogLevel uint8

// The levels. The zero value says nothing.
const (
	LogInherit  LogLevel = iota
	LogNone              // what the books need
	LogMetadata          // all but bodies
	LogFull              // bodies too
)

var logLevels = [...]string{LogInherit: "", LogNone: "none", LogMetadata: "metadata", LogFull: "full"}

// String returns the level's name, empty where nothing is said.
func (l LogLevel) String() string { return logLevels[l] }

// ParseLogLevel returns the level of this name. A word that is none says nothing.
func ParseLogLevel(name string) LogLevel {
	for l, n := range logLevels {
		if n == name {
			return LogLevel(l)
		}
	}
	return LogInherit
}

// Logging is how much is to be kept of the exchanges of a key, as the key says
// it and those above it.
type Logging struct {
	Organisation LogLevel
	Workspace    LogLevel
	Key          LogLevel

	// Override is what the organisation lets those below it say otherwise.
	// Without it a workspace is not asked, and a key may keep less alone.
	Override bool
}

// Level returns what counts where the installation says installation.
func (l Logging) Level(installation LogLevel) LogLevel {
	level := cmp.Or(l.Organisation, installation, LogMetadata)
	if l.Override {
		return cmp.Or(l.Key, l.Workspace, level)
	}
	if l.Key != LogInherit {
		return min(l.Key, level)
	}
	return level
}
