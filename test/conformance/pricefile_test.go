package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/waittest"
)

// priceFile returns a pricing file in which a thousand tokens read and a hundred written by
// sonar-pro, as billed reports them, cost as many cents. The built-in price makes them 1.05.
func priceFile(cents string) string {
	return `{"sonar-pro":{"pricing_config":{"pay_as_you_go":{"request_token":{"price":0},"response_token":{"price":0.0` + cents + `}}}}}`
}

// builtInCents is what such a request costs by the built-in price.
const builtInCents = "1.05"

// priceProxy is a server of price files that counts what it is asked.
type priceProxy struct {
	url string

	mu    sync.Mutex
	asked []string // guarded by mu
}

// newPriceProxy starts a server that answers with the files of the map, by path, and with
// the status elsewhere.
func newPriceProxy(t *testing.T, files map[string]string, elsewhere int) *priceProxy {
	t.Helper()
	p := new(priceProxy)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.URL.Path)
		p.mu.Unlock()
		if text, ok := files[r.URL.Path]; ok {
			io.WriteString(w, text)
			return
		}
		w.WriteHeader(elsewhere)
	}))
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

// paths returns the paths that were asked for, each once and sorted.
func (p *priceProxy) paths() []string {
	list := p.all()
	slices.Sort(list)
	return slices.Compact(list)
}

// all returns the paths that were asked for.
func (p *priceProxy) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// priced is a gateway whose provider @some is one without a list of models.
type priced struct{ *gateway }

// newPriced starts a gateway with files in its data folder, by path.
func newPriced(t *testing.T, files map[string]string, env ...string) priced {
	t.Helper()
	data := t.TempDir()
	p := newProvider(t, billed)
	all := map[string]string{"modelgate.yaml": "version: 1\nproviders:\n  - {slug: some, provider: perplexity-ai, api_key: \"${STORED_KEY}\", custom_host: \"" + p.root + "\"}\n"}
	maps.Copy(all, files)
	for name, text := range all {
		name = filepath.Join(data, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range env {
		env[i] = strings.ReplaceAll(env[i], "DATA", data)
	}
	g := &gateway{data: data}
	if err := g.begin(append(env, "MODELGATE_TRUSTED_HOSTS=127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Errorf("stopping the gateway: %v\n%s", err, g.errText)
		}
	})
	return priced{g}
}

// sources returns where the files of a kind that were read came from, by provider. Without
// sources of the kind it is nil.
func (g priced) sources(t *testing.T, kind string) map[string]string {
	t.Helper()
	res, err := http.Get(g.admin + "/prices")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var list struct {
		Data []struct{ Provider, Kind, Source, Read string }
	}
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	var out map[string]string
	for _, s := range list.Data {
		if s.Kind == kind {
			if out == nil {
				out = map[string]string{}
			}
			if s.Read != "" {
				out[s.Provider] = s.Source
			}
		}
	}
	return out
}

// costs waits until a request costs as many cents, and then sends another.
func (g priced) costs(t *testing.T, cents string) {
	t.Helper()
	cost := func() string {
		n, _ := g.entry(t, g.do(t, "POST", "/v1/chat/completions", chatOf("sonar-pro"), managed("@some")...).wantOK(t))["cost"].(json.Number)
		return n.String()
	}
	waittest.Until(t, "a request costs "+cents+" cents", func() bool { return cost() == cents })
	if got := cost(); got != cents {
		t.Errorf("another request costs %s cents, want %s", got, cents)
	}
}

// lists waits until the model is in the list of models.
func (g priced) lists(t *testing.T, model string) {
	t.Helper()
	waittest.Until(t, "the list of models has "+model, func() bool {
		return strings.Contains(string(g.do(t, "GET", "/v1/models", "", "x-gateway-api-key", bootstrapKey).wantOK(t).body), model)
	})
}

func TestPricesAreReadFromTheirSourcesInOrder(t *testing.T) {
	const broken = `{"sonar-pro":7}`
	for _, tt := range []struct {
		name                  string
		proxy                 map[string]string
		elsewhere             int
		logStore, local, want string
	}{
		{"the proxy is first", map[string]string{"/pricing/perplexity-ai": priceFile("2")}, 404, priceFile("3"), priceFile("4"), "2"},
		{"a proxy without the file leads to the log store", nil, 404, priceFile("3"), priceFile("4"), "3"},
		{"a proxy that fails leads to the log store", nil, 500, priceFile("3"), priceFile("4"), "3"},
		{"a broken file of the proxy leads to the log store", map[string]string{"/pricing/perplexity-ai": broken}, 404, priceFile("3"), priceFile("4"), "3"},
		{"a log store without the file leads to the disk", nil, 404, "", priceFile("4"), "4"},
		{"a broken file of the log store leads to the disk", nil, 500, broken, priceFile("4"), "4"},
		{"a broken file on the disk leads to the built-in prices", nil, 404, "", broken, builtInCents},
		{"no file leads to the built-in prices", nil, 404, "", "", builtInCents},
	} {
		prove(t, "S-592", tt.name, func(t *testing.T) {
			p := newPriceProxy(t, tt.proxy, tt.elsewhere)
			files := map[string]string{}
			if tt.logStore != "" {
				files["blob/prices/perplexity-ai.json"] = tt.logStore
			}
			if tt.local != "" {
				files["local/perplexity-ai.json"] = tt.local
			}
			g := newPriced(t, files, "MODEL_CONFIGS_PROXY_FETCH_ENABLED=ON", "MODEL_CONFIGS_PROXY_URL="+p.url,
				"MODEL_CONFIGS_PRICING_LOG_STORE_PATH=prices", "MODEL_CONFIGS_PRICING_LOCAL_PATH=DATA/local")
			waittest.Until(t, "the proxy is asked", func() bool { return len(p.all()) > 0 })
			g.costs(t, tt.want)
		})
	}
	prove(t, "S-592 S-593", "what was read is in memory", func(t *testing.T) {
		p := newPriceProxy(t, map[string]string{"/pricing/perplexity-ai": priceFile("2")}, 404)
		g := newPriced(t, nil, "MODEL_CONFIGS_PROXY_FETCH_ENABLED=ON", "MODEL_CONFIGS_PROXY_URL="+p.url)
		g.costs(t, "2")
		for range 5 {
			g.costs(t, "2")
		}
		if n := slices.Compact(p.all()); len(n) != len(p.all()) {
			t.Errorf("the proxy was asked for %q, want each file once", p.all())
		}
	})
}

func TestThePriceProxyNeedsBothSettings(t *testing.T) {
	files := map[string]string{"/pricing/perplexity-ai": priceFile("2"), "/general/perplexity-ai": `{"sonar-of-the-proxy":{}}`}
	prove(t, "S-594", "it is asked for prices and models of the provider", func(t *testing.T) {
		p := newPriceProxy(t, files, 404)
		g := newPriced(t, nil, "MODEL_CONFIGS_PROXY_FETCH_ENABLED=ON", "MODEL_CONFIGS_PROXY_URL="+p.url+"/")
		g.costs(t, "2")
		g.lists(t, "sonar-of-the-proxy")
		if got, want := p.paths(), []string{"/general/perplexity-ai", "/pricing/perplexity-ai"}; !slices.Equal(got, want) {
			t.Errorf("it was asked for %q, want %q", got, want)
		}
	})
	for name, enabled := range map[string]string{"not enabled": "", "turned off": "OFF"} {
		prove(t, "S-594", "it is not asked where it is "+name, func(t *testing.T) {
			p := newPriceProxy(t, files, 404)
			g := newPriced(t, map[string]string{"local/perplexity-ai.json": priceFile("4")},
				"MODEL_CONFIGS_PROXY_FETCH_ENABLED="+enabled, "MODEL_CONFIGS_PROXY_URL="+p.url, "MODEL_CONFIGS_PRICING_LOCAL_PATH=DATA/local")
			g.costs(t, "4")
			if got := p.all(); len(got) > 0 {
				t.Errorf("it was asked for %q", got)
			}
		})
	}
	prove(t, "S-594", "enabled without an address, the next source is used", func(t *testing.T) {
		g := newPriced(t, map[string]string{"local/perplexity-ai.json": priceFile("4")}, "MODEL_CONFIGS_PROXY_FETCH_ENABLED=ON", "MODEL_CONFIGS_PRICING_LOCAL_PATH=DATA/local")
		g.costs(t, "4")
	})
}

func TestPricesAreReadFromFolders(t *testing.T) {
	for _, tt := range []struct{ number, folder, path, pricing, capabilities string }{
		{"S-595", "blob/a/prices", "a/prices", "MODEL_CONFIGS_PRICING_LOG_STORE_PATH", "MODEL_CONFIGS_CAPABILITIES_LOG_STORE_PATH"},
		{"S-596", "prices", "DATA/prices", "MODEL_CONFIGS_PRICING_LOCAL_PATH", "MODEL_CONFIGS_CAPABILITIES_LOCAL_PATH"},
	} {
		prove(t, tt.number, "prices", func(t *testing.T) {
			g := newPriced(t, map[string]string{tt.folder + "/perplexity-ai.json": priceFile("3")}, tt.pricing+"="+tt.path)
			g.costs(t, "3")
			if got := g.sources(t, "capabilities"); got != nil {
				t.Errorf("capabilities are read from %v, want nowhere", got)
			}
		})
		prove(t, tt.number, "capabilities", func(t *testing.T) {
			g := newPriced(t, map[string]string{tt.folder + "/perplexity-ai.json": `{"sonar-of-the-folder":{}}`}, tt.capabilities+"="+tt.path)
			g.lists(t, "sonar-of-the-folder")
			g.costs(t, builtInCents)
			if got := g.sources(t, "pricing"); got != nil {
				t.Errorf("prices are read from %v, want nowhere", got)
			}
		})
		prove(t, tt.number, "an empty folder leaves the built-in prices", func(t *testing.T) {
			g := newPriced(t, map[string]string{tt.folder + "/another.json": priceFile("3")}, tt.pricing+"="+tt.path, tt.capabilities+"="+tt.path)
			waittest.Until(t, "the files are read", func() bool {
				return fmt.Sprint(g.sources(t, "pricing")) == "map[perplexity-ai:built in]" && fmt.Sprint(g.sources(t, "capabilities")) == "map[perplexity-ai:built in]"
			})
			g.costs(t, builtInCents)
		})
	}
}
