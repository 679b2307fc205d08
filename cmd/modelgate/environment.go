package main

import (
	"regexp"
	"slices"
	"strings"

	"modelgate/config"
)

// variables are the environment variables that commands read. Features and the
// variables named in settings files are separate.
var variables = []string{
	"DATABASE_URL", "DB_CONNECTIONS", "DB_SSL", "DB_SSL_CA", "DB_SSL_CERT", "DB_SSL_KEY",
	"MODELGATE_ADMIN_LISTEN", "MODELGATE_ADMIN_TOKEN", "MODELGATE_BOOTSTRAP_KEY", "MODELGATE_CA", "MODELGATE_CONFIG", "MODELGATE_DATA",
	"MODELGATE_DEPLOYMENT_SECRET", "MODELGATE_EMBEDDING_KEY", "MODELGATE_EMBEDDING_MODEL", "MODELGATE_EMBEDDING_URL", "MODELGATE_LISTEN",
	"MODELGATE_LOGS_DATABASE_URL", "MODELGATE_LOG_FORMAT", "MODELGATE_LOG_LEVEL",
	"MODELGATE_MASTER_KEY", "MODELGATE_MASTER_KEY_COMMAND", "MODELGATE_MASTER_KEY_PREVIOUS", "MODELGATE_MASTER_KEY_PREVIOUS_COMMAND",
	"MODELGATE_PUBLIC_URL", "MODELGATE_TRUSTED_HOSTS", "MODELGATE_URL",
}

// reserved is the prefix of names that nothing else may use.
const reserved = "MODELGATE_"

// foreign matches names with the reserved prefix that others set: the keys of clients
// in our documentation, tests, and Kubernetes for services of that name.
var foreign = regexp.MustCompile(`^MODELGATE_(KEY=|BINARY=|TEST_|([A-Z0-9_]+_)?(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=|PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://|PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=))`)

// checkEnvironment returns an error for a variable in environ, a list of NAME=value,
// that has the reserved prefix and that no command reads. The error does not contain
// its value.
func checkEnvironment(environ []string) error {
	for _, v := range slices.Sorted(slices.Values(environ)) {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, reserved) || slices.Contains(variables, name) || foreign.MatchString(v) {
			continue
		}
		like := strings.TrimPrefix(name, reserved)
		if !slices.Contains(variables, like) {
			like = config.Nearest(name, variables)
		}
		if like != "" {
			return usage("the environment variable %.100s is unknown; did you mean %s?", name, like)
		}
		return usage("the environment variable %.100s is unknown, and names that begin with %s are reserved; unset or rename it", name, reserved)
	}
	return nil
}
