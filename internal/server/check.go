package server

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"modelgate/config"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/settings"
	"modelgate/internal/snapshot"
	"modelgate/internal/upstream"
)

// CheckSettings checks a settings file like a start or reload would, without starting
// anything, and also the files and hosts that it names, which a gateway needs only later.
// Trusted are trusted hosts in addition to those of the file. A file with control-plane
// objects is checked as one for `modelgate apply`. Notes are remarks on a valid file.
func CheckSettings(file string, trusted []string, master, previous secret.String) (notes []string, err error) {
	box, err := MasterBox(master, previous)
	if err != nil {
		return nil, err
	}
	if err := checkTrustedHosts("MODELGATE_TRUSTED_HOSTS", trusted); err != nil {
		return nil, err
	}
	set, err := loadSettings(file, box)
	if err != nil {
		return checkState(file, box, trusted, err)
	}
	if _, err := snapshot.Build(input(set)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return shortenedHosts(set), errors.Join(checkFiles(set), checkHosts(set, trusted))
}

// checkState checks a file for `modelgate apply`. It returns err, the error of the same file
// for a gateway, if the file is not one.
func checkState(file string, box *secret.Box, trusted []string, err error) (notes []string, _ error) {
	set, stateErr := settings.LoadState(file, settings.SecretResolver{Env: os.LookupEnv, Box: box})
	if stateErr != nil || !set.HasState() {
		return nil, err
	}
	notes = append(shortenedHosts(set), "the file is for `modelgate apply`, because it has control-plane objects; a gateway does not start with it")
	return notes, checkHosts(set, trusted)
}

// checkFiles reads the TLS files that the settings name.
func checkFiles(set *settings.Settings) error {
	var errs []error
	if set.Listener.TLS.Enabled() {
		_, err := readTLS(set.Listener.TLS)
		errs = append(errs, err)
	}
	if set.Alerts.Email.Server != "" {
		_, err := set.Alerts.Email.Mail()
		errs = append(errs, err)
	}
	_, err := set.Audit.Syslog.TLSConfig()
	return errors.Join(append(errs, err)...)
}

// customHost is an address in the settings that custom hosts must be allowed to have.
type customHost struct {
	field   string // in the settings
	owner   string // such as the provider @main
	address string
}

// customHosts returns the addresses of providers, integrations and configs.
func customHosts(set *settings.Settings) (list []customHost) {
	add := func(address, owner, format string, args ...any) {
		if address != "" {
			list = append(list, customHost{fmt.Sprintf(format, args...), owner, address})
		}
	}
	for i, p := range set.Providers {
		add(p.CustomHost, "provider @"+p.Slug, "providers[%d].custom_host", i)
		for option, address := range serviceAddresses(p.Provider, p.Options) {
			add(address, "provider @"+p.Slug, "providers[%d].options.%s", i, option)
		}
	}
	for i, in := range set.Integrations {
		add(in.CustomHost, "integration "+in.Slug, "integrations[%d].custom_host", i)
		for option, address := range serviceAddresses(in.Provider, in.Options) {
			add(address, "integration "+in.Slug, "integrations[%d].options.%s", i, option)
		}
		for j, m := range in.Models {
			add(m.CustomHost, "integration "+in.Slug, "integrations[%d].models[%d].custom_host", i, j)
		}
	}
	for i := range set.Configs {
		if root, err := config.Parse([]byte(set.Configs[i].Text().Reveal())); err == nil {
			for node := range root.All() {
				add(node.CustomHost, "config "+set.Configs[i].Slug, "configs[%d].%s.custom_host", i, node.Path)
			}
		}
	}
	return list
}

// serviceAddresses returns the addresses of services that options of a provider set.
func serviceAddresses(id string, options map[string]string) map[string]string {
	spec, ok := table.Lookup(id)
	if !ok {
		return nil
	}
	return (&provider.Target{Spec: spec, Options: options}).ServiceAddresses()
}

// checkHosts returns an error for each custom host that is refused with these trusted hosts.
func checkHosts(set *settings.Settings, trusted []string) error {
	client := upstream.New(upstream.Options{TrustedHosts: slices.Concat(trusted, set.Upstream.TrustedHosts)})
	defer client.Close()
	var errs []error
	for _, h := range customHosts(set) {
		if _, err := client.CheckHost(h.address); err != nil {
			errs = append(errs, set.ErrorAt(h.field, fmt.Errorf("%s: %w", h.owner, err)))
		}
	}
	return errors.Join(errs...)
}

// shortenedHosts says which addresses of providers, integrations and configs are shortened.
func shortenedHosts(set *settings.Settings) (notes []string) {
	add := func(s table.Shortened) {
		if s.Removed != "" {
			notes = append(notes, s.String())
		}
	}
	for i, p := range set.Providers {
		add(table.Shortened{Field: fmt.Sprintf("providers[%d].custom_host", i),
			Removed: table.ShortenedHost(p.Provider, provider.Settings{CustomHost: p.CustomHost, Options: p.Options})})
	}
	for i, in := range set.Integrations {
		add(table.Shortened{Field: fmt.Sprintf("integrations[%d].custom_host", i),
			Removed: table.ShortenedHost(in.Provider, provider.Settings{CustomHost: in.CustomHost, Options: in.Options})})
	}
	for i := range set.Configs {
		root, err := config.Parse([]byte(set.Configs[i].Text().Reveal()))
		if err != nil {
			continue
		}
		for _, s := range table.ShortenedHosts(root) {
			add(table.Shortened{Field: fmt.Sprintf("configs[%d].config.%s", i, s.Field), Removed: s.Removed})
		}
	}
	return notes
}

// reportHosts logs the addresses of new settings that are refused, so that requests to them
// fail, and those that are shortened.
func (s *Server) reportHosts(set *settings.Settings) {
	for _, h := range customHosts(set) {
		if _, err := s.engine.Client.CheckHost(h.address); err != nil {
			s.Logger.Warn("address in the settings is refused; requests to it fail", "owner", h.owner, "err", set.ErrorAt(h.field, err).Error())
		}
	}
	for _, note := range shortenedHosts(set) {
		s.Logger.Warn("address in the settings is shortened", "field", note)
	}
}
