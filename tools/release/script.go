package main

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"strings"
)

// installer installs the binary of a release on a machine with nothing but a shell.
//
//go:embed install.sh
var installer string

// writeInstaller writes the install script of this version.
func (r *release) writeInstaller(context.Context) error {
	if r.address != "" {
		if u, err := url.Parse(r.address); err != nil || u.Scheme != "https" || u.Host == "" || strings.ContainsAny(r.address, "\"'`$\\ \n") {
			return fmt.Errorf("the address %q is not one of https", r.address)
		}
	}
	text := strings.Replace(installer, `version="VERSION"`, `version="`+r.version+`"`, 1)
	text = strings.Replace(text, `address="ADDRESS"`, `address="`+r.address+`"`, 1)
	return r.write("install.sh", []byte(strings.Replace(text, "Installs modelgate VERSION:", "Installs modelgate "+r.version+":", 1)), nil)
}
