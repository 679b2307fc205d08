package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// keyHint returns the shell command that creates a gateway key in the database of d. It
// contains no secrets: they are read from the environment variables of their flags, and
// the command fails if these are not set.
func (p *program) keyHint(d databaseFlags) string {
	data, err := filepath.Abs(*d.data)
	if err != nil {
		data = *d.data
	}
	var command strings.Builder
	command.WriteString(shellWord(os.Args[0]) + " keys create --data " + shellWord(data))
	var unset []string
	for _, f := range []struct {
		flag, env, value string
		secret           bool
	}{
		{"--database-url", "DATABASE_URL", *d.url, holdsSecret(*d.url)},
		{"--db-ssl", "DB_SSL", *d.ssl, false},
		{"--db-ssl-ca", "DB_SSL_CA", *d.ca, isPEM(*d.ca)},
		{"--db-ssl-cert", "DB_SSL_CERT", *d.cert, isPEM(*d.cert)},
		{"--db-ssl-key", "DB_SSL_KEY", *d.key, isPEM(*d.key)},
	} {
		switch {
		case f.value == "":
		case f.secret:
			command.WriteString(fmt.Sprintf(` %s "${%s:?}"`, f.flag, f.env))
			if p.env(f.env) != f.value {
				unset = append(unset, fmt.Sprintf("%s to the value of %s", f.env, f.flag))
			}
		default:
			command.WriteString(" " + f.flag + " " + shellWord(f.value))
		}
	}
	hint := "More with:\n\n  " + command.String() + " --name NAME\n"
	if len(unset) > 0 {
		hint += "\nBefore, set in the environment: " + strings.Join(unset, ", ") + ".\n"
	}
	return hint
}

// holdsSecret reports whether the address of a database may contain a password.
func holdsSecret(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return true
	}
	_, password := u.User.Password()
	query := u.Query()
	query.Del("sslmode")
	return password || len(query) > 0
}

// isPEM reports whether a flag contains PEM data instead of the name of a file.
func isPEM(value string) bool { return strings.Contains(value, "-----BEGIN") }

// shellWord quotes s for a shell.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
