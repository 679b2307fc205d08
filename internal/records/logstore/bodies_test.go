package logstore

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"modelgate/internal/records/reqlog"
)

// anyBody draws bodies that may be absent, empty, or long and alike.
func anyBody() *rapid.Generator[reqlog.Body] {
	return rapid.Custom(func(t *rapid.T) reqlog.Body {
		b := reqlog.Body{Type: rapid.String().Draw(t, "type"), Size: rapid.Int64().Draw(t, "size"), Cut: rapid.Bool().Draw(t, "cut")}
		if rapid.Bool().Draw(t, "there") {
			part := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "part")
			b.Data = bytes.Repeat(append([]byte{}, part...), rapid.IntRange(1, 100).Draw(t, "times"))
		}
		return b
	})
}

func TestAnyBodiesComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &reqlog.Bodies{Request: anyBody().Draw(t, "request"), Response: anyBody().Draw(t, "response")}
		for _, raw := range []int{0, rowRaw, tableRaw, 1 << 30} {
			got, err := parseBodies(appendBodies([]byte("x")[:0], want, raw))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("bodies differ (-want +got):\n%s", diff)
			}
		}
	})
}

func TestABodyThatIsTooLongIsCut(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), maxBody/16+1)
	b, err := parseBodies(appendBodies(nil, &reqlog.Bodies{Request: reqlog.Body{Data: long}, Response: reqlog.Body{Data: long[:maxBody]}}, 0))
	if err != nil {
		t.Fatal(err)
	}
	if !b.Request.Cut || !bytes.Equal(b.Request.Data, long[:maxBody]) || b.Response.Cut || len(b.Response.Data) != maxBody {
		t.Errorf("request cut %t to %d, answer cut %t to %d; want the request alone cut, to %d",
			b.Request.Cut, len(b.Request.Data), b.Response.Cut, len(b.Response.Data), maxBody)
	}
}

func TestCompressedBodiesTakeLittleRoom(t *testing.T) {
	text := []byte(strings.Repeat(`{"role":"user","content":"hello"},`, 300))
	if got := len(appendBodies(nil, &reqlog.Bodies{Request: reqlog.Body{Data: text}}, tableRaw)); got > len(text)/20 {
		t.Errorf("%d bytes were kept as %d, want far fewer", len(text), got)
	}
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	both := &reqlog.Bodies{Request: reqlog.Body{Data: noise}, Response: reqlog.Body{Data: noise[:1<<19]}}
	if got := len(appendBodies(nil, both, tableRaw)); got > 3<<19+64 {
		t.Errorf("bytes that can't be compressed were kept as %d, want no more than they are", got)
	}
}

// TestBodiesThatUnpackToMoreThanAnnouncedAreDamaged keeps a row that was made to fill the
// memory from doing so.
func TestBodiesThatUnpackToMoreThanAnnouncedAreDamaged(t *testing.T) {
	packed := appendBodies(nil, &reqlog.Bodies{Request: reqlog.Body{Data: make([]byte, maxBody)}}, 0)
	at := bytes.Index(packed, []byte{0x80, 0x80, 0x80, 0x01}) // its length
	if at < 0 || packed[0] != bodiesZstd {
		t.Fatalf("no length in % x", packed[:16])
	}
	packed[at+1], packed[at+2] = 0x81, 0x80
	small := append(append(bytes.Clone(packed[:at]), 1), packed[at+4:]...)
	large := append(append(bytes.Clone(packed[:at]), 0xff, 0xff, 0xff, 0x7f), packed[at+4:]...)
	raw := appendBodies(nil, &reqlog.Bodies{Request: reqlog.Body{Data: []byte("abc")}, Response: reqlog.Body{Data: []byte("de")}}, 1<<20)
	unpackers() // whose own memory is not looked at
	for name, b := range map[string][]byte{
		"less than there is": small, "more than is kept": large, "none": packed[:at],
		"raw and short": raw[:len(raw)-1], "raw and long": append(bytes.Clone(raw), 'f'),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parseBodies(b)
		runtime.ReadMemStats(&after)
		mustBeDamage(t, err)
		if used := after.TotalAlloc - before.TotalAlloc; err == nil || used > 8*maxBody {
			t.Errorf("%s: error %v, %d bytes of memory", name, err, used)
		}
	}
}

// FuzzBodies feeds rows that no encoder wrote, and bodies.
func FuzzBodies(f *testing.F) {
	b := &reqlog.Bodies{Request: reqlog.Body{Type: "a/b", Data: bytes.Repeat([]byte("text "), 99), Size: 5000, Cut: true}, Response: reqlog.Body{Data: []byte{}}}
	f.Add(appendBodies(nil, b, 0))
	f.Add(appendBodies(nil, b, 1<<20))
	f.Add(AppendEntry(nil, &reqlog.Entry{ID: reqlog.NewID(time.UnixMilli(1_800_000_000_000)), Level: reqlog.LevelFull, Bodies: b}))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseBodies(data)
		mustBeDamage(t, err)
		if err == nil && len(got.Request.Data)+len(got.Response.Data) > 2*maxBody {
			t.Errorf("bodies of %d and %d bytes", len(got.Request.Data), len(got.Response.Data))
		}
		_, err = ParseEntry(data)
		mustBeDamage(t, err)
	})
}
