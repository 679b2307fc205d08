package parquet_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	reader "github.com/parquet-go/parquet-go"

	"modelgate/internal/format/parquet"
)

var columns = []parquet.Column{
	{Name: "id", Type: parquet.Text},
	{Name: "at", Type: parquet.Moment},
	{Name: "body", Type: parquet.JSON, Null: true},
	{Name: "ok", Type: parquet.Bool, Null: true},
	{Name: "n", Type: parquet.Int, Null: true},
	{Name: "took", Type: parquet.Float, Null: true},
	{Name: "cost", Type: parquet.Decimal, Null: true, Scale: 7},
}

func row(i int) []any {
	v := []any{fmt.Sprintf("id-%d", i), time.UnixMilli(int64(1_700_000_000_000 + i)), nil, nil, nil, nil, nil}
	if i%3 == 0 {
		v[2], v[3] = `{"a":"`+strings.Repeat("ü", i%50)+`"}`, i%2 == 0
	}
	if i%5 != 0 {
		v[4], v[5], v[6] = int64(-i), float64(i)/8, int64(i)*1_000_001
	}
	return v
}

func TestWrittenFilesAreReadByOtherReaders(t *testing.T) {
	for _, n := range []int{0, 1, 17, 70_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var out bytes.Buffer
			w, err := parquet.NewWriter(&out, columns)
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if err := w.Append(row(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			f, err := reader.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
			if err != nil {
				t.Fatal(err)
			}
			if f.NumRows() != int64(n) {
				t.Fatalf("%d rows, want %d", f.NumRows(), n)
			}
			if n > 1<<16 && len(f.RowGroups()) < 2 {
				t.Errorf("%d groups of %d rows", len(f.RowGroups()), n)
			}
			i := 0
			for _, g := range f.RowGroups() {
				rows := g.Rows()
				for {
					buf := make([]reader.Row, 100)
					read, err := rows.ReadRows(buf)
					for _, r := range buf[:read] {
						if diff := cmp.Diff(row(i), values(r), cmp.Comparer(time.Time.Equal)); diff != "" {
							t.Fatalf("row %d:\n%s", i, diff)
						}
						i++
					}
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				rows.Close()
			}
			if i != n {
				t.Errorf("read %d rows, want %d", i, n)
			}
		})
	}
}

// values returns a row as it was appended.
func values(r reader.Row) []any {
	out := make([]any, len(columns))
	for i, v := range r {
		switch {
		case v.IsNull():
		case columns[i].Type == parquet.Moment:
			out[i] = time.UnixMilli(v.Int64())
		case v.Kind() == reader.ByteArray:
			out[i] = string(v.ByteArray())
		case v.Kind() == reader.Boolean:
			out[i] = v.Boolean()
		case v.Kind() == reader.Double:
			out[i] = v.Double()
		default:
			out[i] = v.Int64()
		}
	}
	return out
}

func TestColumnsSayWhatTheyMean(t *testing.T) {
	var out bytes.Buffer
	w, err := parquet.NewWriter(&out, columns)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := reader.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	want := `message export {
	required binary id (STRING);
	required int64 at (TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS));
	optional binary body (JSON);
	optional boolean ok;
	optional int64 n (INT(64,true));
	optional double took;
	optional int64 cost (DECIMAL(18,7));
}`
	if diff := cmp.Diff(want, f.Schema().String()); diff != "" {
		t.Error(diff)
	}
}

func TestBigValuesEndAGroup(t *testing.T) {
	var out bytes.Buffer
	w, err := parquet.NewWriter(&out, columns[2:3])
	if err != nil {
		t.Fatal(err)
	}
	big := `"` + strings.Repeat("x", 5<<20) + `"`
	for range 4 {
		if err := w.Append([]any{big}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := reader.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil || len(f.RowGroups()) != 2 {
		t.Errorf("%v, %d groups, want 2", err, len(f.RowGroups()))
	}
}

func TestValuesOfAnotherTypeAreRefused(t *testing.T) {
	for _, tt := range []struct {
		value any
		fits  int // of the types
	}{
		{"x", 2}, {true, 1}, {int64(1), 2}, {1.5, 1}, {time.Now(), 1}, {nil, 0}, {7, 0},
	} {
		fits := 0
		for _, c := range columns {
			w, err := parquet.NewWriter(io.Discard, []parquet.Column{{Name: c.Name, Type: c.Type}})
			if err != nil {
				t.Fatal(err)
			}
			if w.Append([]any{tt.value}) == nil {
				fits++
			} else if w.Append([]any{tt.value}) == nil || w.Close() == nil {
				t.Errorf("%T in %s: the error does not stay", tt.value, c.Name)
			}
		}
		if fits != tt.fits {
			t.Errorf("%T fits %d types, want %d", tt.value, fits, tt.fits)
		}
	}
	w, err := parquet.NewWriter(io.Discard, columns)
	if err != nil {
		t.Fatal(err)
	}
	if w.Append([]any{"x"}) == nil {
		t.Error("a short row was taken")
	}
}

type fullWriter struct{ room int }

func (f *fullWriter) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errors.New("no room")
	}
	return len(b), nil
}

func TestAnErrorOfTheFileStays(t *testing.T) {
	for room := range 200 {
		w, err := parquet.NewWriter(&fullWriter{room}, columns)
		if err == nil {
			w.Append(row(0))
			err = w.Close()
		}
		if err == nil {
			t.Fatalf("with room for %d bytes: no error", room)
		}
	}
}
