package logstore

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"modelgate/api"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

func TestAnyBatchReadsBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.SliceOfN(anyEntry(), 1, 40).Draw(t, "batch")
		var w batchWriter
		w.encode(slices.Clone(batch))
		var got []*reqlog.Entry
		for _, b := range w.blocks {
			entries := mustUnpack(t, b.data)
			if len(entries) != b.entries || entries[0].ID != b.last || entries[len(entries)-1].ID != b.first {
				t.Fatalf("block says %d entries, %s to %s; holds %d, %s to %s", b.entries, b.last, b.first,
					len(entries), entries[0].ID, entries[len(entries)-1].ID)
			}
			if slotOf(b.last) != slotOf(b.first) {
				t.Fatalf("block spans more than a slot: %s to %s", b.last, b.first)
			}
			got = append(got, entries...)
		}
		slices.SortStableFunc(batch, func(a, b *reqlog.Entry) int { return bytes.Compare(b.ID[:], a.ID[:]) })
		if diff := cmp.Diff(batch, got); diff != "" {
			t.Fatalf("unpacked batch differs (-want +got):\n%s", diff)
		}
	})
}

func TestABlockIsCutBeforeItGrowsTooLarge(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	var batch []*reqlog.Entry
	for range 3 * blockEntries {
		batch = append(batch, &reqlog.Entry{ID: reqlog.NewID(at), Result: reqlog.Result{ErrorMessage: string(make([]byte, 1000))}})
	}
	for i := range 5 {
		batch = append(batch, &reqlog.Entry{ID: reqlog.NewID(at), Input: reqlog.Input{Path: string(make([]byte, blockBytes/2+i))}})
	}
	var w batchWriter
	w.encode(batch)
	total := 0
	for _, b := range w.blocks {
		total += b.entries
		if b.entries > blockEntries || len(b.data) > 2*blockBytes {
			t.Errorf("block of %d entries, %d bytes; want at most %d, %d", b.entries, len(b.data), blockEntries, 2*blockBytes)
		}
	}
	if total != len(batch) {
		t.Errorf("blocks hold %d entries, want %d", total, len(batch))
	}
}

// FuzzDecode feeds bytes that no encoder wrote: reading them ends, and either
// gives entries or says that the block is damaged.
func FuzzDecode(f *testing.F) {
	var w batchWriter
	w.encode([]*reqlog.Entry{
		{ID: reqlog.NewID(time.UnixMilli(1_800_000_000_000)), Time: time.UnixMilli(1_800_000_000_000), Input: reqlog.Input{Model: "m", Metadata: map[string]string{"a": "b"}}, Trace: reqlog.Trace{TraceID: "t"}},
		{ID: reqlog.NewID(time.UnixMilli(1_800_000_000_001)), Steps: reqlog.Steps{Attempts: []reqlog.Attempt{{Target: "config"}}}, Result: reqlog.Result{Usage: llm.Usage{Input: 1}, ErrorCode: "c"}, Trace: reqlog.Trace{SpanName: "s"}},
	})
	f.Add(w.blocks[0].data)
	f.Add([]byte{blockFormat, 0, 0})
	f.Add([]byte{blockFormat, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := newBlockReader(data)
		if err != nil {
			mustBeDamage(t, err)
			return
		}
		flt, _ := (&plan{q: Query{TraceID: "t", Metadata: map[string]string{"": ""}}}).filterFor(b, data)
		for {
			p, ok, err := b.next()
			if err != nil || !ok {
				mustBeDamage(t, err)
				return
			}
			if _, err := flt.matches(p); err != nil {
				mustBeDamage(t, err)
			}
			if _, err := p.entry(); err != nil {
				mustBeDamage(t, err)
			}
		}
	})
}

func mustBeDamage(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, errDamaged) {
		t.Fatalf("error %v, want one that says damaged", err)
	}
}

func mustUnpack(t *rapid.T, data []byte) []*reqlog.Entry {
	b, err := newBlockReader(data)
	if err != nil {
		t.Fatal(err)
	}
	var entries []*reqlog.Entry
	for {
		p, ok, err := b.next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return entries
		}
		e, err := p.entry()
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
}

// anyEntry draws entries of a few seconds with fields of any content.
func anyEntry() *rapid.Generator[*reqlog.Entry] {
	word := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "gpt-4o"}), rapid.String())
	span := rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) })
	count := rapid.Int64()
	return rapid.Custom(func(t *rapid.T) *reqlog.Entry {
		text := func(name string) string { return word.Draw(t, name) }
		ms := rapid.OneOf(rapid.Int64Range(1_800_000_000_000, 1_800_000_003_000), rapid.Int64Range(0, maxMillis)).Draw(t, "ms")
		e := &reqlog.Entry{
			ID: reqlog.NewID(time.UnixMilli(ms)), Trace: reqlog.Trace{TraceID: text("trace"), SpanID: text("span"), ParentSpanID: text("parent"), SpanName: text("spanname")},
			Sender:    reqlog.Sender{Organisation: text("org"), Workspace: text("ws"), KeyID: text("key"), KeyName: text("keyname"), UserAgent: text("agent")},
			Input:     reqlog.Input{Method: text("method"), Path: text("path"), Operation: api.Operation(text("op")), Stream: rapid.Bool().Draw(t, "stream"), Model: text("model"), RequestBytes: count.Draw(t, "in")},
			Origin:    reqlog.Origin{Provider: text("provider"), Slug: text("slug"), UpstreamModel: text("upstream"), ResponseModel: text("response"), OptionIndex: text("option"), CacheStatus: text("cache")},
			Result:    reqlog.Result{Status: rapid.Int().Draw(t, "status"), ErrorSource: text("source"), ErrorCode: text("code"), ErrorMessage: text("message"), Finish: text("finish"), ResponseBytes: count.Draw(t, "out")},
			Durations: reqlog.Durations{Total: span.Draw(t, "total"), Upstream: span.Draw(t, "upstream"), FirstToken: span.Draw(t, "first"), Overhead: span.Draw(t, "overhead")},
		}
		if rapid.Bool().Draw(t, "timed") {
			e.Time = time.Unix(rapid.Int64Range(-62135596799, 253402300799).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
		}
		if m := rapid.MapOfN(word, word, 0, 5).Draw(t, "metadata"); len(m) > 0 {
			e.Metadata = m
		}
		if rapid.Bool().Draw(t, "used") {
			e.Usage = llm.Usage{
				Input: count.Draw(t, "u1"), CachedInput: count.Draw(t, "u2"), CacheWrite5m: count.Draw(t, "u3"), CacheWrite1h: count.Draw(t, "u4"),
				Output: count.Draw(t, "u5"), Reasoning: count.Draw(t, "u6"), InputAudio: count.Draw(t, "u7"), OutputAudio: count.Draw(t, "u8"),
			}
		}
		e.Usage.Known = rapid.Bool().Draw(t, "known")
		for range rapid.IntRange(0, 3).Draw(t, "attempts") {
			e.Attempts = append(e.Attempts, reqlog.Attempt{
				Target: text("t"), Provider: text("p"), Slug: text("s"), Status: rapid.Int().Draw(t, "st"),
				Error: text("e"), Start: span.Draw(t, "start"), Took: span.Draw(t, "took"),
			})
		}
		for range rapid.IntRange(0, 3).Draw(t, "decisions") {
			e.Decisions = append(e.Decisions, reqlog.Decision{Path: text("dp"), Text: text("dt")})
		}
		for n := range rapid.IntRange(0, 3).Draw(t, "limits") {
			e.Limits = append(e.Limits, reqlog.LimitUse{Attempt: n + 1, Holder: text("lh"), ID: text("li"), Measure: "tokens", Unit: text("lu"), Reserved: int64(n) << 40, Used: int64(n), Refused: n == 2})
		}
		for n := range rapid.IntRange(0, 3).Draw(t, "checks") {
			e.Checks = append(e.Checks, reqlog.CheckUse{
				Event: "after", Target: text("ct"), Hook: text("ch"), Version: text("cv"), Check: text("cc"), Verdict: reqlog.CheckFailed,
				Denied: n == 0, Transformed: n == 1, Async: n == 2, Shadow: n > 0, Took: span.Draw(t, "ctook"),
			})
		}
		for range rapid.IntRange(0, 2).Draw(t, "unchecked") {
			e.Unchecked = append(e.Unchecked, text("uncovered"))
		}
		if rapid.Bool().Draw(t, "prompted") {
			e.Prompt = reqlog.Prompt{ID: text("prompt"), Slug: text("prompt slug"), Version: count.Draw(t, "version")}
		}
		if rapid.Bool().Draw(t, "priced") {
			e.Cost, e.Priced, e.Price = catalog.NanoDollars(count.Draw(t, "cost")), true, text("price")
			e.Config, e.Level = text("config"), reqlog.RecordLevel(rapid.IntRange(0, 2).Draw(t, "level"))
		}
		for range rapid.IntRange(0, 3).Draw(t, "params") {
			e.Params = append(e.Params, text("param"))
		}
		return e
	})
}
