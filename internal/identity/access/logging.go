package access

import "cmp"

// LogLevel is a logging level. A higher level records more.
type LogLevel uint8

// Logging levels. The zero value sets none.
const (
	LogInherit  LogLevel = iota
	LogNone              // what the ledger needs
	LogMetadata          // everything except bodies
	LogFull              // including bodies
)

var logLevels = [...]string{LogInherit: "", LogNone: "none", LogMetadata: "metadata", LogFull: "full"}

// String returns the level's name, empty for the zero value.
func (l LogLevel) String() string { return logLevels[l] }

// ParseLogLevel returns the level with this name, zero for an unknown name.
func ParseLogLevel(name string) LogLevel {
	for l, n := range logLevels {
		if n == name {
			return LogLevel(l)
		}
	}
	return LogInherit
}

// Logging is the logging level of a key and of the workspace and organisation above it.
type Logging struct {
	Organisation LogLevel
	Workspace    LogLevel
	Key          LogLevel

	// Override lets workspaces set another level and keys a higher one. Without it a
	// workspace's level is ignored, and a key may only lower the level.
	Override bool
}

// Level returns the effective level, given the installation's.
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
