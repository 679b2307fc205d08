package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"modelgate/config"
	"modelgate/internal/base/secret"
	"modelgate/internal/base/urlpath"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/records/redact"
)

// fault is an error at a path.
type fault struct {
	path string
	err  error
}

func at(err error, format string, args ...any) *fault {
	return &fault{fmt.Sprintf(format, args...), err}
}

// check checks what the types cannot express and opens credentials.
func (s *Settings) check(o SecretResolver) *fault {
	if s.Version != 0 && s.Version != 1 {
		return at(fmt.Errorf("must be 1, not %d", s.Version), "version")
	}
	for _, part := range [...]func() *fault{
		func() *fault { return s.checkProviders(o) },
		func() *fault { return s.checkConfigs(o) },
		s.checkKeys,
		s.checkState,
		s.checkPrices,
		s.checkSecrets,
		func() *fault { return s.Telemetry.check(o) },
		func() *fault { return s.checkBlob(o) },
		s.Exports.check,
		s.Files.check,
		s.Batches.check,
		s.Responses.check,
		func() *fault { return s.Limits.Counters.check(o) },
		func() *fault { return s.Cache.check(o) },
		s.Listener.check,
		s.Sessions.check,
		func() *fault { return s.Tools.check(o) },
		s.OAuth.check,
		s.checkPublicURL,
		func() *fault { return s.checkAudit(o) },
		func() *fault { return s.Alerts.check(o) },
		s.checkSections,
	} {
		if f := part(); f != nil {
			return f
		}
	}
	return nil
}

var slugForm = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// slugs is a set of slugs by workspace, empty for the organisation. It rejects
// malformed and duplicate slugs.
type slugs map[[2]string]bool

func (known slugs) add(place, slug string) error {
	if len(slug) > 255 || !slugForm.MatchString(slug) {
		return errors.New("a slug must be 1 to 255 letters, digits, dots, dashes and underscores, and must not begin with a dot")
	}
	if known[[2]string{place, slug}] {
		return fmt.Errorf("duplicate slug %q", slug)
	}
	known[[2]string{place, slug}] = true
	return nil
}

func (s *Settings) checkProviders(o SecretResolver) *fault {
	known := slugs{}
	for i := range s.Providers {
		p := &s.Providers[i]
		if err := known.add(p.Workspace, p.Slug); err != nil {
			return at(err, "providers[%d].slug", i)
		}
		if p.Provider == "" && p.Integration == "" {
			return at(errors.New("name a provider; `modelgate providers` lists them"), "providers[%d].provider", i)
		}
		if p.Integration != "" && (p.Provider != "" || p.APIKey != "" || p.CustomHost != "" || p.Options != nil || p.Models != nil) {
			return at(errors.New("a provider with an integration must not have its own credentials, settings or models"),
				"providers[%d].integration", i)
		}
		if name, err := p.nameOptions(); err != nil {
			return at(err, "providers[%d].options.%s", i, name)
		}
		key, err := o.Open(p.APIKey)
		if err != nil {
			return at(err, "providers[%d].api_key", i)
		}
		p.key = key
	}
	return nil
}

// nameOptions gives the options the names and words of the provider's definition. With an
// error it returns the name of the option.
func (p *Provider) nameOptions() (name string, err error) {
	spec, ok := table.Lookup(p.Provider)
	if !ok || p.Options == nil { // an unknown provider is an error of its own
		return "", nil
	}
	options := make(map[string]string, len(p.Options))
	for _, given := range slices.Sorted(maps.Keys(p.Options)) {
		option, ok := spec.FindOption(given)
		if !ok {
			return given, unknownOption(spec, option.Name)
		}
		if _, twice := options[option.Name]; twice {
			return given, errors.New("is set twice")
		}
		value := p.Options[given]
		if option.Values != nil && value != "" && !slices.Contains(option.Values, value) {
			return given, fmt.Errorf("must be one of %s", strings.Join(option.Values, ", "))
		}
		options[option.Name] = option.Meaning(value)
	}
	p.Options = options
	return "", nil
}

// unknownOption returns the error for an option that a provider does not have.
func unknownOption(spec *provider.Spec, name string) error {
	known := make([]string, len(spec.Options))
	for i, o := range spec.Options {
		known[i] = o.Name
	}
	if like := config.Nearest(name, known); like != "" {
		return fmt.Errorf("is not a setting of provider %q; did you mean %q?", spec.ID, like)
	}
	if len(known) == 0 {
		return fmt.Errorf("is not a setting of provider %q, which has none", spec.ID)
	}
	return fmt.Errorf("is not a setting of provider %q; use %s", spec.ID, strings.Join(known, ", "))
}

func (s *Settings) checkConfigs(o SecretResolver) *fault {
	known := slugs{}
	for i := range s.Configs {
		c := &s.Configs[i]
		if err := known.add(c.Workspace, c.Slug); err != nil {
			return at(err, "configs[%d].slug", i)
		}
		text, err := config.ReplaceCredentials(c.Config, func(found config.Credential) (string, error) { return o.openInConfig(found) })
		if err == nil {
			_, err = config.Parse(text)
		}
		if err != nil {
			return at(err, "configs[%d].config", i)
		}
		c.text = secret.New(string(text))
	}
	return nil
}

// openInConfig opens a credential of a config. A value that only looks like a
// credential by its name may be in plain text, and so may [KeptCredential].
func (o SecretResolver) openInConfig(c config.Credential) (string, error) {
	ref := c.Value.Reveal()
	if ref == KeptCredential && c.Object {
		return `{"kept":"` + KeptCredential + `"}`, nil
	}
	if ref == KeptCredential || !c.Declared && !isReference(ref) {
		return ref, nil
	}
	v, err := o.Open(ref)
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.Path, err)
	}
	return v.Reveal(), nil
}

func (s *Settings) checkKeys() *fault {
	known := make(map[access.Hash]bool, len(s.Keys))
	for i := range s.Keys {
		k := &s.Keys[i]
		hash, err := access.ParseHash(k.SHA256)
		if err == nil && known[hash] {
			err = errors.New("this key is duplicated")
		}
		if err != nil {
			return at(err, "keys[%d].sha256", i)
		}
		known[hash] = true
		if _, field, err := k.Egress.Parse(); err != nil {
			return at(err, "keys[%d].egress_policy.%s", i, field)
		}
		if _, err := access.ParseAddresses(k.Addresses); err != nil {
			return at(err, "keys[%d].allowed_addresses", i)
		}
		for j, scope := range k.Scopes {
			if err := access.Scope(scope).Check(); err != nil {
				return at(err, "keys[%d].scopes[%d]", i, j)
			}
		}
	}
	return nil
}

func (s *Settings) checkPublicURL() (f *fault) {
	if s.PublicURL == "" {
		return nil
	}
	var err error
	if s.PublicURL, err = ParsePublicURL(s.PublicURL); err != nil {
		return at(err, "public_url")
	}
	return nil
}

// ParsePublicURL returns the address of a gateway without a trailing slash.
func ParsePublicURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("must be an http or https address without credentials, query and fragment, such as https://gateway.example.com")
	}
	text = strings.TrimRight(text, "/?#")
	path := strings.TrimRight(u.EscapedPath(), "/")
	if canonical, err := urlpath.Canonical(cmp.Or(path, "/")); path != "" && (err != nil || canonical != path) {
		return "", errors.New("must have a plain path: without dot segments, empty segments and characters that are percent-encoded without need")
	}
	if strings.HasSuffix(u.Path, "/v1") || strings.HasSuffix(u.Path, "/v1/") {
		return "", errors.New("must not end in /v1")
	}
	return text, nil
}

func (s *Settings) checkPrices() *fault {
	seen := make(map[[3]string]bool)
	for i := range s.Prices {
		p := &s.Prices[i]
		row, err := p.Row()
		if err != nil {
			return at(err, "prices[%d]", i)
		}
		if field, err := p.check(); err != nil {
			return at(err, "prices[%d].%s", i, field)
		}
		id := [3]string{row.Provider, p.Model, p.From}
		if seen[id] {
			return at(fmt.Errorf("the price of %q of %q is duplicated; keep one, or set different days in from", p.Model, p.Provider),
				"prices[%d].model", i)
		}
		seen[id] = true
	}
	return nil
}

func (s *Settings) checkSections() *fault {
	for i, h := range s.Compat.HeaderPrefixes {
		if !strings.HasSuffix(h, "-") || strings.ContainsAny(h, " :\t") {
			return at(errors.New("a header prefix must end in a dash, such as x-example-"), "compat.header_prefixes[%d]", i)
		}
	}
	switch s.Log.Level {
	case "", "debug", "info", "warn", "error":
	default:
		return at(errors.New("the level must be debug, info, warn or error"), "log.level")
	}
	if f := s.Logs.check(); f != nil {
		return f
	}
	return s.Ledger.check()
}

func (l *Logs) check() *fault {
	if l.BodySize < 0 || l.BodySize > largestBody {
		return at(errors.New("must be at most 1 MB; 0 is the default"), "logs.body_size")
	}
	if _, err := redact.New(l.Redact.Rules()); err != nil {
		f, _ := errors.AsType[*redact.Fault](err)
		return at(f.Err, "logs.redact.%s", f.Rule)
	}
	if err := l.Retention.Check(); err != nil {
		return at(err, "logs.retention")
	}
	return nil
}

// largestBody is the limit of a recorded body.
const largestBody = 1 << 20

// Check returns an error for a retention that is too small.
func (r Retention) Check() error {
	return checkRetention("the log", r.Bytes, r.Days, r.BodiesDays, r.SumsDays)
}

func checkRetention(what string, bytes Size, days ...int) error {
	const longest, smallest = 36500, 64 << 20
	if slices.Min(days) < -1 || slices.Max(days) > longest {
		return fmt.Errorf("days must be 1 to %d, or -1 to keep all", longest)
	}
	if bytes != 0 && bytes < smallest {
		return fmt.Errorf("%s must be at least 64 MB", what)
	}
	return nil
}

// Effective returns r with its defaults: 90 days and 8 GB of entries, 400 days of
// rollups. Bodies are retained with their entries.
func (r Retention) Effective() Retention {
	r.Days = cmp.Or(r.Days, 90)
	r.SumsDays = cmp.Or(r.SumsDays, 400)
	r.Bytes = cmp.Or(r.Bytes, 8<<30)
	return r
}

// String describes the retention of entries for an operator.
func (r Retention) String() string {
	days := "all days"
	if r.Days > 0 {
		days = fmt.Sprintf("%d days", r.Days)
	}
	return fmt.Sprintf("%s, at most %d MB", days, r.Bytes>>20)
}

// smallestLedger leaves space for more than one segment.
const smallestLedger = 64 << 20

func (l *Ledger) check() *fault {
	switch l.OnFull {
	case "", "block", "drop_bodies", "drop_rows", "reject":
	default:
		return at(errors.New("on_full must be block, drop_bodies, drop_rows or reject"), "ledger.on_full")
	}
	switch l.Sync {
	case "", "grouped", "strict":
	default:
		return at(errors.New("sync must be grouped or strict"), "ledger.sync")
	}
	if l.MaxSize != 0 && l.MaxSize < smallestLedger {
		return at(errors.New("the ledger must be at least 64 MB"), "ledger.max_size")
	}
	return nil
}
