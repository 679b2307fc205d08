package jwt_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/identity/jwt"
	"modelgate/internal/testing/waittest"
	"modelgate/internal/upstream"
)

// wantAccepted waits until a verifier has keys: those of an issuer that is new are asked
// for concurrently.
func wantAccepted(t *testing.T, judge *jwt.Verifier) {
	t.Helper()
	if _, err := verify(judge, sign(first(), header, claims), noon); err != nil {
		t.Fatalf("with the first key: %v", err)
	}
}

func TestANewKeyIsAskedForOnceAndSoonAgain(t *testing.T) {
	p := newPlace(t, public("one", first()))
	k, _ := mustKeySets(t, upstream.Options{RootCAs: p.pool})
	judge := k.Tokens([]jwt.Issuer{p.issuer()})
	wantAccepted(t, judge)
	if n := p.asked.Load(); n != 1 {
		t.Errorf("asked %d times for the first keys, want once", n)
	}
	p.serve(set(public("one", first()), public("two", second())))
	token := sign(second(), header.with(values{"kid": "two"}), claims)
	_, err := verify(judge, token, noon.Add(9*time.Second))
	wantRefused(t, "soon after", token, err, "invalid_token", "kid")
	if n := p.asked.Load(); n != 1 {
		t.Errorf("asked %d times within 10 seconds, want once", n)
	}
	now := noon.Add(11 * time.Second)
	if _, err := verify(judge, token, now); err != nil {
		t.Errorf("with the new key: %v", err)
	}
	for range 100 {
		unknown := sign(second(), header.with(values{"kid": "three"}), claims)
		_, err := verify(judge, unknown, now)
		wantRefused(t, "a kid that nobody has", unknown, err, "invalid_token", "kid")
	}
	if n := p.asked.Load(); n != 2 {
		t.Errorf("asked %d times, want twice", n)
	}
	wantAccepted(t, judge)
}

// A key that was taken out of the set ends what it signed, without anybody's
// asking for another.
func TestKeysAreAskedForAtOnceAndWhenTheyAreOld(t *testing.T) {
	p := newPlace(t)
	asked := make(chan struct{}, 1)
	p.setHandler(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(set(public("one", first()))))
		asked <- struct{}{}
	})
	k, _ := mustKeySets(t, upstream.Options{RootCAs: p.pool})
	judge := k.Tokens([]jwt.Issuer{p.issuer()})
	waittest.Receive(t, asked, "the first request for the keys")
	wantAccepted(t, judge)
	token := sign(first(), header, claims)
	if _, err := verify(judge, token, noon.Add(10*time.Minute)); err != nil {
		t.Errorf("after 10 minutes: %v", err)
	}
	if _, err := verify(judge, token, noon.Add(11*time.Minute)); err != nil {
		t.Errorf("after 11 minutes: %v", err)
	}
	waittest.Receive(t, asked, "the second request for the keys")
	k.Close()
	if n := p.asked.Load(); n != 2 {
		t.Errorf("asked %d times, want at once and after 11 minutes", n)
	}
}

// doer answers requests without a network.
type doer func(*http.Request) *http.Response

func (d doer) Do(req *http.Request, _ bool) (*http.Response, error) { return d(req), nil }

func TestKeysAreAskedForAgainOnceTheyAreOlderThanTenMinutes(t *testing.T) {
	keys := set(public("one", first()))
	token := sign(first(), header, claims)
	for after, want := range map[time.Duration]int64{10 * time.Minute: 1, 10*time.Minute + 1: 2} {
		var asked atomic.Int64
		k := jwt.New(jwt.Options{
			Client: doer(func(*http.Request) *http.Response {
				asked.Add(1)
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(keys))}
			}),
			Logger: discard,
			Now:    func() time.Time { return noon },
		})
		judge := k.Tokens([]jwt.Issuer{{Organisation: "org", URL: "https://id.example.com/keys", Workspaces: organisation().Workspaces}})
		wantAccepted(t, judge)
		waittest.Until(t, "the requests for keys", func() bool { // the first may still be ending
			if _, err := verify(judge, token, noon.Add(after)); err != nil {
				t.Errorf("after %v: %v", after, err)
			}
			return asked.Load() >= want
		})
		k.Close() // waits for concurrent requests
		if n := asked.Load(); n != want {
			t.Errorf("asked %d times by %v after the first keys, want %d", n, after, want)
		}
	}
}

func TestATokenWithAnUnknownKeyHasTheKeysAskedForEveryTenSeconds(t *testing.T) {
	p := newPlace(t, public("one", first()))
	k, _ := mustKeySets(t, upstream.Options{RootCAs: p.pool})
	judge := k.Tokens([]jwt.Issuer{p.issuer()})
	wantAccepted(t, judge)
	token := sign(second(), header.with(values{"kid": "two"}), claims)
	for _, tt := range []struct {
		after time.Duration
		want  int64
	}{{10*time.Second - 1, 1}, {10 * time.Second, 2}, {20*time.Second - 1, 2}, {20 * time.Second, 3}} {
		_, err := verify(judge, token, noon.Add(tt.after))
		wantRefused(t, tt.after.String(), token, err, "invalid_token", "kid")
		if n := p.asked.Load(); n != tt.want {
			t.Errorf("asked %d times after %v, want %d", n, tt.after, tt.want)
		}
	}
}

func TestAKeySetOfAQuarterOfAMegabyteIsTaken(t *testing.T) {
	text := set(public("one", first()))
	p := newPlace(t)
	p.serve(text + strings.Repeat(" ", 256<<10-len(text)))
	k, _ := mustKeySets(t, upstream.Options{RootCAs: p.pool})
	wantAccepted(t, k.Tokens([]jwt.Issuer{p.issuer()}))
}

func TestTheLogNamesTheIssuerWhoseKeysAreAway(t *testing.T) {
	p := newPlace(t)
	p.setHandler(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	k, log := mustKeySets(t, upstream.Options{RootCAs: p.pool})
	by := p.issuer()
	by.URL += "?secret=abc"
	token := sign(first(), header, claims)
	_, err := verify(k.Tokens([]jwt.Issuer{by}), token, noon)
	wantRefused(t, "while it is away", token, err, "token_keys_unavailable", "try again")
	k.Close()
	address, _, _ := strings.Cut(strings.TrimPrefix(p.url, "https://"), "/")
	if !strings.Contains(log.String(), "issuer="+address) || strings.Contains(log.String(), "abc") {
		t.Errorf("the log does not name the host %s alone:\n%s", address, log)
	}
}

func TestTheLogReportsKeysThatAreNotUsed(t *testing.T) {
	p := newPlace(t, public("one", first()), public("two", small()))
	k, log := mustKeySets(t, upstream.Options{RootCAs: p.pool})
	wantAccepted(t, k.Tokens([]jwt.Issuer{p.issuer()}))
	k.Close()
	if !strings.Contains(log.String(), "keys[1] has 1024 bits") {
		t.Errorf("the log does not report the small key:\n%s", log)
	}
}

func TestTheLogReportsKeysInSettingsThatCannotBeUsed(t *testing.T) {
	by := organisation()
	by.Set = set(public("one", small()))
	k, log := mustKeySets(t, upstream.Options{})
	token := sign(first(), header, claims)
	_, err := verify(k.Tokens([]jwt.Issuer{by}), token, noon)
	wantRefused(t, "without a key", token, err, "token_keys_unavailable", "try again")
	if !strings.Contains(log.String(), "organisation=org") || !strings.Contains(log.String(), "keys[0] has 1024 bits") {
		t.Errorf("the log does not report the organisation's keys:\n%s", log)
	}
}

func TestManyWhoWaitAskOnce(t *testing.T) {
	p := newPlace(t, public("one", first()))
	begin := make(chan struct{})
	p.setHandler(func(w http.ResponseWriter, _ *http.Request) {
		<-begin
		w.Write([]byte(set(public("one", first()))))
	})
	k, _ := mustKeySets(t, upstream.Options{RootCAs: p.pool})
	judge := k.Tokens([]jwt.Issuer{p.issuer()})
	token := sign(first(), header, claims)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := verify(judge, token, noon); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	all.Wait()
	if n := p.asked.Load(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
}

func TestAnIssuerThatDoesNotAnswerHoldsNobodyForLong(t *testing.T) {
	p := newPlace(t)
	end := make(chan struct{})
	p.setHandler(func(http.ResponseWriter, *http.Request) { <-end })
	t.Cleanup(func() { close(end) })
	k, _ := mustKeeperFor(t, upstream.Options{RootCAs: p.pool}, 0)
	judge := k.Tokens([]jwt.Issuer{p.issuer()})
	began := time.Now()
	token := sign(first(), header, claims)
	_, err := verify(judge, token, noon)
	wantRefused(t, "in the meantime", token, err, "token_keys_unavailable", "try again")
	if took := time.Since(began); took >= 10*time.Second || err.Status() != http.StatusServiceUnavailable {
		t.Errorf("answered %d after %v, want 503 after about 2 seconds", err.Status(), took)
	}
	began = time.Now()
	k.Close()
	if took := time.Since(began); took >= 10*time.Second {
		t.Errorf("closing took %v while an issuer is asked", took)
	}
}

func TestKeysCountOnWhileTheirPlaceIsAway(t *testing.T) {
	p := newPlace(t, public("one", first()))
	k, log := mustKeySets(t, upstream.Options{RootCAs: p.pool})
	judge := k.Tokens([]jwt.Issuer{p.issuer()})
	wantAccepted(t, judge)
	p.setHandler(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	later := noon.Add(11 * time.Minute)
	other := sign(first(), header, claims.with(values{"sub": "bob"}))
	for _, now := range []time.Time{later, later.Add(time.Minute), later.Add(20 * time.Minute)} {
		if _, err := verify(judge, other, now); err != nil {
			t.Errorf("at %v: %v", now, err)
		}
	}
	token := sign(second(), header.with(values{"kid": "two"}), claims)
	_, err := verify(judge, token, later.Add(30*time.Minute))
	wantRefused(t, "an unknown key in the meantime", token, err, "invalid_token", "kid")
	if n := strings.Count(log.String(), "fetching issuer keys failed"); n != 1 || !strings.Contains(log.String(), "502") {
		t.Errorf("the log reports it %d times, want once:\n%s", n, log)
	}
	p.serve(set(public("two", second())))
	if _, err := verify(judge, token, later.Add(31*time.Minute)); err != nil {
		t.Errorf("when it is back: %v", err)
	}
	_, err = verify(judge, other, later.Add(31*time.Minute))
	wantRefused(t, "a verified token whose key was taken back", other, err, "invalid_token", "kid")
	if !strings.Contains(log.String(), "fetching issuer keys recovered") {
		t.Errorf("the log does not tell that it is back:\n%s", log)
	}
}

func TestAnIssuerThatWasAwayAtFirstIsAskedAgain(t *testing.T) {
	p := newPlace(t)
	p.setHandler(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	k, _ := mustKeySets(t, upstream.Options{RootCAs: p.pool})
	judge := k.Tokens([]jwt.Issuer{p.issuer()})
	token := sign(first(), header, claims)
	for range 10 {
		_, err := verify(judge, token, noon)
		wantRefused(t, "while it is away", token, err, "token_keys_unavailable", "try again")
	}
	if n := p.asked.Load(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	p.serve(set(public("one", first())))
	if _, err := verify(judge, token, noon.Add(11*time.Second)); err != nil {
		t.Errorf("when it is back: %v", err)
	}
}

func TestAResponseWithoutAKeySetIsRejected(t *testing.T) {
	for name, response := range map[string]http.HandlerFunc{
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(set(public("one", first())) + strings.Repeat(" ", 256<<10)))
		},
		"endless":      func(w http.ResponseWriter, _ *http.Request) { writeEndless(w) },
		"HTML":         func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"an empty set": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"keys":[]}`)) },
		"a redirect":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) },
		"created": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			w.Write([]byte(set(public("one", first()))))
		},
		"a broken end": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9999")
			w.Write([]byte("{"))
		},
		"small keys": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(set(public("one", small())))) },
		"many keys":  func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(set(manyKeys(101)...))) },
		"a kid for two": func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(set(public("one", first()), public("one", second()))))
		},
		"what is secret": func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(set(public("one", first()).with(values{"d": "AQ"}))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.setHandler(response)
			k, _ := mustKeySets(t, upstream.Options{RootCAs: p.pool})
			token := sign(first(), header, claims)
			_, err := verify(k.Tokens([]jwt.Issuer{p.issuer()}), token, noon)
			wantRefused(t, name, token, err, "token_keys_unavailable", "try again")
		})
	}
}

func writeEndless(w http.ResponseWriter) {
	for _, err := w.Write([]byte(`{"keys":[`)); err == nil; {
		_, err = w.Write([]byte(strings.Repeat(`{},`, 1000)))
	}
}

func manyKeys(n int) []values {
	list := make([]values, n)
	for i := range list {
		list[i] = public(strings.Repeat("k", i+1), first())
	}
	return list
}

func TestKeysAreFetchedFromPublicAddressesAlone(t *testing.T) {
	p := newPlace(t, public("one", first()))
	token := sign(first(), header, claims)
	for name, url := range map[string]string{
		"this machine":     p.url,
		"by its name":      strings.Replace(p.url, "127.0.0.1", "localhost", 1),
		"a cloud's secret": "https://169.254.169.254/latest",
	} {
		k := jwt.New(jwt.Options{Client: upstream.New(upstream.Options{RootCAs: p.pool}), Logger: discard})
		t.Cleanup(k.Close)
		by := p.issuer()
		by.URL = url
		_, err := verify(k.Tokens([]jwt.Issuer{by}), token, noon)
		wantRefused(t, name, token, err, "token_keys_unavailable", "try again")
	}
	if n := p.asked.Load(); n != 0 {
		t.Errorf("asked %d times, want never", n)
	}
}

func TestAnEqualStateKeepsVerifiedTokens(t *testing.T) {
	p := newPlace(t, public("one", first()))
	k, _ := mustKeySets(t, upstream.Options{RootCAs: p.pool})
	judge := k.Tokens([]jwt.Issuer{p.issuer()})
	wantAccepted(t, judge)
	if again := k.Tokens([]jwt.Issuer{p.issuer()}); again != judge {
		t.Error("the same issuers give another verifier")
	}
	without := p.issuer()
	without.Workspaces = nil
	other := k.Tokens([]jwt.Issuer{without})
	token := sign(first(), header, claims)
	_, err := verify(other, token, noon)
	wantRefused(t, "once its workspace is archived", token, err, "token_workspace", "workspace")
	if n := p.asked.Load(); n != 1 {
		t.Errorf("asked %d times, want once: the address is the same", n)
	}
	_, err = verify(k.Tokens(nil), token, noon)
	wantRefused(t, "once nobody takes tokens", token, err, "invalid_token", "organisation")
	inline := organisation()
	inline.Set = set(public("one", second()))
	_, err = verify(k.Tokens([]jwt.Issuer{inline}), token, noon)
	wantRefused(t, "once the keys are others", token, err, "invalid_token", "signature")
}

func TestAKeySetSaysWhatIsWrongWithIt(t *testing.T) {
	good := public("one", first())
	even := base64.RawURLEncoding.EncodeToString(append(first().N.Bytes()[:255:255], 0))
	for _, tt := range []struct{ name, text, word string }{
		{"good", set(good), ""},
		{"padded", set(good.with(values{"e": "AQAB=="})), ""},
		{"without use and alg", set(good.with(values{"use": nil, "alg": nil})), ""},
		{"for verifying", set(good.with(values{"key_ops": []string{"verify"}})), ""},
		{"next to keys of other kinds", set(good, values{"kty": "EC", "kid": "ec"}, values{"kty": "RSA", "use": "enc"}), ""},
		{"the same key twice", set(good, good), ""},
		{"with a certificate", set(good.with(values{"x5c": []string{"MII"}, "x5t": "a"})), ""},
		{"no JSON", "keys", "not a JSON Web Key Set"},
		{"a key alone", strings.TrimSuffix(strings.TrimPrefix(set(good), `{"keys":[`), "]}"), "not a JSON Web Key Set"},
		{"no keys", `{"keys":[]}`, "no RSA key"},
		{"keys of another kind", `{"keys":7}`, "not a JSON Web Key Set"},
		{"a key that is text", `{"keys":["a"]}`, "keys[0]"},
		{"none that signs", set(good.with(values{"use": "enc"})), "no RSA key"},
		{"none for RS256", set(good.with(values{"alg": "RS512"})), "no RSA key"},
		{"one that only signs", set(good.with(values{"key_ops": []string{"sign"}})), "no RSA key"},
		{"no kid", set(good.with(values{"kid": nil})), "kid"},
		{"a kid of another kind", set(good.with(values{"kid": 7})), "keys[0]"},
		{"a bad one next to a good one", set(good, good.with(values{"kid": ""})), "keys[1]"},
		{"two under one kid", set(good, public("one", second())), "keys[1]"},
		{"small", set(public("one", small())), "1024 bits"},
		{"of 8192 bits", set(good.with(values{"n": base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\xff", 1024)))})), ""},
		{"of 2047 bits", set(good.with(values{"n": base64.RawURLEncoding.EncodeToString([]byte("\x7f" + strings.Repeat("\xff", 255)))})), "2047 bits"},
		{"large", set(good.with(values{"n": base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\xff", 1025)))})), "8200 bits"},
		{"even", set(good.with(values{"n": even})), "not an RSA key"},
		{"an exponent of one", set(good.with(values{"e": "AQ"})), "not an RSA key"},
		{"an exponent of three", set(good.with(values{"e": "Aw"})), ""},
		{"an exponent of 31 bits", set(good.with(values{"e": "f____w"})), ""},
		{"an exponent of 32 bits", set(good.with(values{"e": "_____w"})), "not an RSA key"},
		{"an even exponent", set(good.with(values{"e": "BA"})), "not an RSA key"},
		{"an exponent of 40 bits", set(good.with(values{"e": "AQAAAAE"})), "not an RSA key"},
		{"no exponent", set(good.with(values{"e": nil})), "not an RSA key"},
		{"a modulus that is no base64url", set(good.with(values{"n": "+/"})), "(n)"},
		{"an exponent that is no base64url", set(good.with(values{"e": "A"})), "(e)"},
		{"a private key", set(good.with(values{"d": "AQ"})), "private part"},
		{"a prime of it", set(good.with(values{"p": "AQ"})), "private part"},
		{"an exponent of it", set(good.with(values{"dp": "AQ"})), "private part"},
		{"a shared secret", set(good, values{"kty": "oct", "k": "AQ"}), "private part"},
		{"a hundred", set(manyKeys(100)...), ""},
		{"too many", set(manyKeys(101)...), "100"},
	} {
		err := jwt.CheckJWKS(tt.text)
		if got := err == nil; got != (tt.word == "") || err != nil && !strings.Contains(err.Error(), tt.word) {
			t.Errorf("%s: CheckSet() = %v, want %q", tt.name, err, tt.word)
		}
	}
}

func FuzzCheckSet(f *testing.F) {
	f.Add(set(public("one", first())))
	f.Add(`{"keys":[{"kty":"RSA","kid":"a","n":"AQ","e":"AQAB"},{}]}`)
	f.Add(`{"keys":[[]],"keys":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if err := jwt.CheckJWKS(text); err != nil {
			return
		}
		// What is taken can be used to verify.
		by := organisation()
		by.Set = text
		k := jwt.New(jwt.Options{Logger: discard})
		defer k.Close()
		token := sign(second(), header, claims)
		if _, err := verify(k.Tokens([]jwt.Issuer{by}), token, noon); err == nil {
			t.Errorf("a token counts by the keys %q", text)
		}
	})
}
