package bundle

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"modelgate/internal/base/secret"
	"modelgate/internal/records/redact"
)

// shortestSecret is the length from which a value is searched for: shorter ones are found in
// ordinary words.
const shortestSecret = 6

// cleaner removes secrets and hosts from texts.
type cleaner struct {
	secrets [][]byte          // in all encodings, the longest first
	hosts   map[string]string // replacements; nil keeps hosts
	names   []string          // of hosts, the longest first
}

// newCleaner collects the secrets of the environment, the flags and their files: the values of
// all variables except for harmless ones.
func newCleaner(o Options) *cleaner {
	c := new(cleaner)
	s := &o.Diagnosis.Server
	addresses := []secret.String{s.Database, s.LogsDatabase}
	for _, v := range append(addresses, s.MasterKey, s.PreviousMasterKey, s.AdminToken, s.BootstrapKey, s.DeploymentSecret) {
		c.add(v.Reveal())
	}
	for _, pem := range []string{s.DatabaseOptions.CA, s.DatabaseOptions.Cert, s.DatabaseOptions.Key} {
		if strings.Contains(pem, "-----") {
			c.add(pem)
		}
	}
	if o.HideHosts {
		c.hosts = make(map[string]string)
	}
	for _, word := range o.Environ {
		name, value, _ := strings.Cut(word, "=")
		if !harmless[strings.ToUpper(name)] {
			c.add(value)
		}
		c.addHost(value)
	}
	for _, v := range addresses {
		c.addHost(v.Reveal())
	}
	if o.HideHosts {
		for _, address := range settingsAddresses(s.Config) {
			c.addHost(address)
		}
	}
	longest := func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }
	slices.SortFunc(c.secrets, func(a, b []byte) int { return longest(string(a), string(b)) })
	slices.SortFunc(c.names, longest)
	return c
}

// add adds a secret, and those within it if it is an address.
func (c *cleaner) add(value string) {
	value = strings.TrimSpace(value)
	if u, err := url.Parse(value); err == nil && u.Host != "" {
		if p, ok := u.User.Password(); ok {
			c.add(p)
		}
		if u.RawQuery != "" {
			c.add(u.RawQuery)
		}
		if len(strings.Trim(u.Path, "/")) > 20 { // such as that of a webhook
			c.add(u.Path)
		}
		if u.User == nil && u.RawQuery == "" {
			return // the address itself is not secret
		}
	}
	if len(value) < shortestSecret {
		return
	}
	raw := []byte(value)
	for _, form := range []string{
		value, url.QueryEscape(value), url.PathEscape(value), hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)),
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw), strings.Trim(fmt.Sprintf("%q", value), `"`),
	} {
		c.secrets = append(c.secrets, []byte(form))
	}
}

// addHost adds the host of an address to those that are hidden.
func (c *cleaner) addHost(value string) {
	if c.hosts == nil {
		return
	}
	host := ""
	if u, err := url.Parse(value); err == nil && u.Hostname() != "" {
		host = u.Hostname()
	} else if h, _, _ := strings.Cut(value, ":"); dotted.MatchString(h) && !notHosts.MatchString(h) {
		host = h
	}
	a, err := netip.ParseAddr(host)
	if len(host) < 3 || err == nil && (a.IsLoopback() || a.IsUnspecified()) || host == "localhost" || !hostName.MatchString(host) {
		return
	}
	c.hide(host)
}

func (c *cleaner) hide(host string) string {
	if c.hosts[host] == "" {
		c.hosts[host] = fmt.Sprintf("host-%d", len(c.hosts)+1)
		c.names = append(c.names, host)
	}
	return c.hosts[host]
}

var (
	hostName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	// dotted matches what may be a host.
	dotted = regexp.MustCompile(`\b([A-Za-z0-9-]+\.)+[A-Za-z]{2,}\b|\b([0-9]{1,3}\.){3}[0-9]{1,3}\b`)
	// notHosts matches words with dots that are file names, settings or loopback.
	notHosts = regexp.MustCompile(`\.(ya?ml|db|md|txt|json|url|pem|key|go|retention|email|webhooks?|counters|tls|max_size)$|^127\.|^0\.0\.0\.0$`)
	// email matches e-mail addresses, also escaped ones.
	email = regexp.MustCompile(`[A-Za-z0-9._%+-]+(@|%40)[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*`)
)

// clean returns a text without secrets, e-mail addresses and, if they are hidden, hosts.
func (c *cleaner) clean(text []byte) []byte {
	for _, s := range c.secrets {
		text = bytes.ReplaceAll(text, s, []byte("[removed]"))
	}
	text = email.ReplaceAll(text, []byte("[email]"))
	text = []byte(withoutSecrets(string(text)))
	if c.hosts == nil {
		return text
	}
	for _, name := range c.names {
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).ReplaceAll(text, []byte(c.hosts[name]))
	}
	return dotted.ReplaceAllFunc(text, func(word []byte) []byte {
		if notHosts.Match(word) {
			return word
		}
		return []byte(c.hide(string(word)))
	})
}

// withoutSecrets replaces what looks like a credential.
func withoutSecrets(text string) string {
	var b strings.Builder
	at := 0
	redact.Find("secret", text, func(from, to int) {
		if from >= at {
			b.WriteString(text[at:from])
			b.WriteString("[removed]")
			at = to
		}
	})
	b.WriteString(text[at:])
	return b.String()
}

// harmless are the variables, in capitals, whose values are kept.
var harmless = func() map[string]bool {
	m := make(map[string]bool)
	for name := range strings.FieldsSeq(`
		MODELGATE_DATA MODELGATE_CONFIG MODELGATE_LISTEN MODELGATE_ADMIN_LISTEN MODELGATE_LOG_LEVEL MODELGATE_LOG_FORMAT
		MODELGATE_TRUSTED_HOSTS DB_SSL GUARDRAILS_ENABLED API_ACCESS_ENABLED DATA_EXPORTS_ENABLED USAGE_LIMITS_ENABLED
		AUDIT_LOGS_ENABLED SCIM_ENABLED POLICY_ENABLED LOG_RETENTION_DISPLAY METRICS_RETENTION_DISPLAY SCIM_MEMBERSHIP_USER_MODE
		GOMEMLIMIT GOGC GOMAXPROCS GODEBUG NO_PROXY HOME PATH PWD OLDPWD SHELL LANG LC_ALL TZ TERM TMPDIR SSL_CERT_FILE SSL_CERT_DIR`) {
		m[name] = true
	}
	return m
}()

// variableName matches the names of variables that are kept.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)

// environment returns the names of variables, with the values of harmless ones and the hosts
// of proxies.
func (o Options) environment() string {
	var lines []string
	for _, word := range o.Environ {
		name, value, _ := strings.Cut(word, "=")
		upper := strings.ToUpper(name)
		switch {
		case !variableName.MatchString(name):
			name, value = "[a name with other characters]", ""
		case harmless[upper]:
		case upper == "HTTPS_PROXY" || upper == "HTTP_PROXY" || upper == "ALL_PROXY":
			value = bareAddress(value)
		default:
			value = fmt.Sprintf("[%d characters]", len(value))
		}
		lines = append(lines, name+"="+value+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// bareAddress returns the scheme and the host of an address.
func bareAddress(value string) string {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" {
		if u, err = url.Parse("http://" + value); err != nil || u.Host == "" {
			return fmt.Sprintf("[%d characters]", len(value))
		}
	}
	bare := u.Scheme + "://" + u.Host
	if strings.Trim(u.Path, "/") != "" {
		bare += "/[path]"
	}
	return bare
}
