package attempt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/dialect/cohere"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
	"modelgate/internal/provider"
	"modelgate/internal/upstream"
)

const (
	recordings = "../../../../shared/recordings"
	// maxCutStreams is the number of streams of each dialect that are cut.
	maxCutStreams = 10
)

// cutDialect is a dialect of providers whose streams are cut.
type cutDialect struct {
	name  string
	api   string // in the recordings
	codec dialect.ProviderCodec
	media string
}

var cutDialects = []cutDialect{
	{"chat", "chat-completions", chat.Dialect{}, framing.MediaEvents},
	{"messages", "messages", messages.Dialect{}, framing.MediaEvents},
	{"responses", "responses", responses.Dialect{}, framing.MediaEvents},
	{"gemini", "stream-generate-content", gemini.Dialect{}, framing.MediaEvents},
	{"converse", "converse-stream", converse.Dialect{}, framing.MediaBinary},
	{"cohere", "chat-v2", cohere.Dialect{}, framing.MediaEvents},
}

var cutClients = []struct {
	name   string
	client dialect.ClientDialect
	read   func(out []byte) clientReading
}{
	{"chat", chat.Dialect{}, readChatStream},
	{"messages", messages.Dialect{}, readMessagesStream},
	{"responses", responses.Dialect{}, readResponsesStream},
	{"gemini", gemini.Dialect{}, readGeminiStream},
	{"converse", converse.Dialect{}, readConverseStream},
}

// cutStream is a complete stream with tool calls.
type cutStream struct {
	name string
	body []byte
}

// mustRecordedStreams returns the smallest recorded streams with a tag, by API, up
// to most of each.
func mustRecordedStreams(t *testing.T, tag string, most int) map[string][]cutStream {
	t.Helper()
	if _, err := os.Stat(recordings); err != nil {
		t.Skipf("no recordings in %s", recordings)
	}
	files, err := filepath.Glob(filepath.Join(recordings, "*", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]cutStream{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tape struct {
			Exchanges []struct {
				API      string
				Tags     []string
				Stream   bool
				Response struct {
					Status int
					Body   string
					Base64 []byte `json:"body_base64"`
				}
			}
		}
		if err := json.Unmarshal(b, &tape); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for n, x := range tape.Exchanges {
			body := append([]byte(x.Response.Body), x.Response.Base64...)
			if x.Stream && x.Response.Status == 200 && slices.Contains(x.Tags, tag) {
				all[x.API] = append(all[x.API], cutStream{fmt.Sprintf("%s#%d", filepath.Base(file), n), body})
			}
		}
	}
	for api, list := range all {
		slices.SortStableFunc(list, func(a, b cutStream) int { return cmp.Compare(len(a.body), len(b.body)) })
		list = slices.CompactFunc(list, func(a, b cutStream) bool { return bytes.Equal(a.body, b.body) })
		all[api] = list[:min(len(list), most)]
	}
	return all
}

// cutStreams returns ten streams of a dialect. If fewer were recorded (4 of
// messages, 5 of gemini, 6 of converse), recorded streams of the chat dialect are
// translated to it. Of cohere, which has no encoder, there are the two recorded.
func (d *cutDialect) cutStreams(t *testing.T, recorded map[string][]cutStream) []cutStream {
	list := recorded[d.api]
	client, ok := d.codec.(dialect.ClientDialect)
	for _, s := range recorded[cutDialects[0].api] {
		if !ok || len(list) == maxCutStreams {
			break
		}
		out, _ := translateCut(&cutDialects[0], client, s.body, nil)
		list = append(list, cutStream{"translated " + s.name, out})
	}
	if len(list) == 0 {
		t.Fatalf("no recorded streams of %s with tool calls", d.api)
	}
	return list
}

var errCut = errors.New("the connection broke")

// cutReader returns the first bytes of a stream, and then end or io.EOF.
func cutReader(body []byte, end error) io.Reader {
	if end == nil {
		return bytes.NewReader(body)
	}
	return io.MultiReader(bytes.NewReader(body), failingReader{end})
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

func cutFrames(media string, src io.Reader) framing.Reader {
	if media == framing.MediaBinary {
		return framing.New(media, "", src, 0)
	}
	return sse.NewReader(src, 0)
}

// translateCut returns what a client receives of a stream, with its end as
// written by the data plane.
func translateCut(d *cutDialect, client dialect.ClientDialect, body []byte, end error) ([]byte, dialect.Tap) {
	return translateFrom(d, client, cutReader(body, end))
}

func translateFrom(d *cutDialect, client dialect.ClientDialect, src io.Reader) ([]byte, dialect.Tap) {
	usage := true
	asked := &llm.Request{Model: "m", Stream: true, IncludeUsage: &usage}
	m := &streamMemory{Reader: cutFrames(d.media, src), pool: bytepool.New(0), translated: true}
	defer m.release()
	t := &translation{
		src: m, dec: d.codec.NewDecoder(asked, dialect.RequestTarget{Provider: d.name, Model: "m"}),
		enc: client.NewEncoder(dialect.ResponseTarget{Request: asked, Provider: d.name, ID: "0123456789abcdef0123456789abcdef", Created: 1}),
	}
	return readToEnd(t, t, client)
}

// forwardCut returns what a client of the provider's own dialect receives.
func forwardCut(d *cutDialect, client dialect.ClientDialect, body []byte, end error) ([]byte, dialect.Tap) {
	tap := client.NewTap(api.Dialect(d.name).ConversationOperation())
	dog := upstream.NewWatchdog(context.Background(), upstream.Timeouts{})
	defer dog.Stop()
	m := &streamMemory{Reader: cutFrames(d.media, cutReader(body, end)), pool: bytepool.New(0)}
	defer m.release()
	s := &targetStream{attempt: &attempt{plan: plan{record: exchange.Attempt{Target: &provider.Target{Spec: new(provider.Spec)}}, timers: attemptTimers{dog: dog}}}, res: &exchange.Response{Raw: &http.Response{Request: new(http.Request).WithContext(context.Background())}}, reader: m, tap: tap}
	return readToEnd(s, tap, client)
}

// brokenStream is what a stream that breaks is read from.
type brokenStream interface {
	Next() (sse.Event, error)
	failer
}

func readToEnd(s brokenStream, tap dialect.Tap, client dialect.ClientDialect) (out []byte, _ dialect.Tap) {
	for {
		e, err := s.Next()
		if err == nil {
			if out = append(out, e.Raw...); e.Unterminated {
				out = append(out, "\n\n"...)
			}
			continue
		}
		if client.ContentType() == framing.MediaEvents && bytes.HasSuffix(out, []byte("\r")) {
			out = append(out, '\n') // as the data plane does
		}
		switch seen := tap.Info(); {
		case seen.Terminated, err == io.EOF && seen.Failed != "":
		case err == io.EOF && seen.Finished:
			out = append(out, client.Terminator()...)
		default:
			out = s.Fail(out, client, apierr.New(apierr.UpstreamFailed, "the provider broke off"))
		}
		return out, tap
	}
}

// cutCase is a stream that breaks after some bytes. Cuts after which the gateway
// reads the same frames have one case.
type cutCase struct {
	at  int
	end error
}

// cutCases returns a case for each sequence of frames that cuts of body at every
// byte lead to. Torn events are the same whatever is left of them, since they are
// never read.
func cutCases(media string, body []byte) (cases []cutCase) {
	known := map[string]bool{}
	for at := range len(body) {
		for _, end := range []error{nil, errCut} {
			n, key := 0, ""
			for r := cutFrames(media, cutReader(body[:at], end)); ; n++ {
				e, err := r.Next()
				if err != nil {
					key += fmt.Sprint(n, err)
					break
				}
				if framing.IsTorn(e) {
					key = "torn "
				} else if e.Unterminated {
					key = string(e.Raw)
				}
			}
			if !known[key] {
				known[key] = true
				cases = append(cases, cutCase{at, end})
			}
		}
	}
	return cases
}

// After any cut no call is finished unless its arguments were complete, everything
// is valid in the client's dialect, and an error follows unless the response was
// complete.
func TestStreamsCutAtEveryByteFinishNoCall(t *testing.T) {
	t.Parallel()
	most := maxCutStreams
	if testing.Short() {
		most = 2
	}
	recorded := mustRecordedStreams(t, "tool-calls", most)
	for i := range cutDialects {
		d := &cutDialects[i]
		for _, s := range d.cutStreams(t, recorded) {
			cases := cutCases(d.media, s.body)
			for _, c := range cutClients {
				way := translateCut
				if c.name == d.name {
					way = forwardCut
				}
				t.Run(d.name+" for "+c.name+"/"+s.name, func(t *testing.T) {
					out, tap := way(d, c.client, s.body, nil)
					whole := c.read(out)
					deviates := whole.problem != "" && c.name == d.name // the provider itself
					if whole.problem != "" && !deviates || !whole.done || whole.failed || len(whole.calls) == 0 || !tap.Info().Finished {
						t.Fatalf("the complete stream: %+v\n%s", whole, out)
					}
					for _, cut := range cases {
						out, _ := way(d, c.client, s.body[:cut.at], cut.end)
						got := c.read(out)
						if got.problem != "" && (!deviates || got.problem != whole.problem) || got.done == got.failed || got.late && c.name != d.name {
							t.Fatalf("cut after %d bytes, end %v: %+v, want an end or an error\n%q\nbecomes\n%s", cut.at, cut.end, got, s.body[max(0, cut.at-200):cut.at], out)
						}
						if len(got.calls) > len(whole.calls) || !slices.Equal(got.calls, whole.calls[:len(got.calls)]) || got.done && len(got.calls) < len(whole.calls) {
							t.Fatalf("cut after %d bytes, end %v: calls %q, done %t, want of %q\n%s", cut.at, cut.end, got.calls, got.done, whole.calls, out)
						}
					}
				})
			}
		}
	}
}
