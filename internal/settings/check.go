package settings

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"modelgate/config"
	"modelgate/internal/access"
	"modelgate/internal/catalog"
)

// fault is what is wrong at a path.
type fault struct {
	path string
	err  error
}

func at(err error, format string, args ...any) *fault {
	return &fault{fmt.Sprintf(format, args...), err}
}

// check judges what the types can't say and opens credentials.
func (s *Settings) check(o Opener) *fault {
	if s.Version != 0 && s.Version != 1 {
		return at(fmt.Errorf("this version of modelgate reads version 1, not %d", s.Version), "version")
	}
	for _, part := range [...]func() *fault{
		func() *fault { return s.checkProviders(o) },
		s.checkConfigs,
		s.checkKeys,
		s.checkPrices,
		s.checkRest,
	} {
		if f := part(); f != nil {
			return f
		}
	}
	return nil
}

var slugForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// slugs refuses slugs that are malformed or stand twice.
type slugs map[string]bool

func (known slugs) add(slug string) error {
	if !slugForm.MatchString(slug) {
		return errors.New("a slug has 1 to 128 letters, digits, dots, dashes and underscores, and begins with a letter or digit")
	}
	if known[slug] {
		return fmt.Errorf("the slug %q stands twice", slug)
	}
	known[slug] = true
	return nil
}

func (s *Settings) checkProviders(o Opener) *fault {
	known := slugs{}
	for i := range s.Providers {
		p := &s.Providers[i]
		if err := known.add(p.Slug); err != nil {
			return at(err, "providers[%d].slug", i)
		}
		if p.Provider == "" {
			return at(errors.New("name a provider; `modelgate providers` lists them"), "providers[%d].provider", i)
		}
		key, err := o.open(p.APIKey)
		if err != nil {
			return at(err, "providers[%d].api_key", i)
		}
		p.key = key
	}
	return nil
}

func (s *Settings) checkConfigs() *fault {
	known := slugs{}
	for i, c := range s.Configs {
		if err := known.add(c.Slug); err != nil {
			return at(err, "configs[%d].slug", i)
		}
		if _, err := config.Parse(c.Config); err != nil {
			return at(err, "configs[%d].config", i)
		}
	}
	return nil
}

func (s *Settings) checkKeys() *fault {
	for i, k := range s.Keys {
		if _, err := access.ParseHash(k.SHA256); err != nil {
			return at(err, "keys[%d].sha256", i)
		}
		for j, scope := range k.Scopes {
			if err := access.Scope(scope).Check(); err != nil {
				return at(err, "keys[%d].scopes[%d]", i, j)
			}
		}
		if k.Config != "" && !s.hasConfig(k.Config) {
			return at(fmt.Errorf("there is no config with the slug %q", k.Config), "keys[%d].config", i)
		}
	}
	return nil
}

func (s *Settings) hasConfig(slug string) bool {
	for _, c := range s.Configs {
		if c.Slug == slug {
			return true
		}
	}
	return false
}

func (s *Settings) checkPrices() *fault {
	for i, p := range s.Prices {
		for _, dollars := range [...]float64{p.Input, p.Output} {
			if _, err := catalog.PerMillion(dollars); err != nil {
				return at(err, "prices[%d]", i)
			}
		}
		if p.Provider == "" || p.Model == "" {
			return at(errors.New("a price names a provider and a model"), "prices[%d]", i)
		}
	}
	return nil
}

func (s *Settings) checkRest() *fault {
	for i, h := range s.Compat.HeaderPrefixes {
		if !strings.HasSuffix(h, "-") || strings.ContainsAny(h, " :\t") {
			return at(errors.New("a header prefix ends in a dash, as x-example-"), "compat.header_prefixes[%d]", i)
		}
	}
	switch s.Log.Level {
	case "", "debug", "info", "warn", "error":
		return nil
	}
	return at(errors.New("the level is debug, info, warn or error"), "log.level")
}
