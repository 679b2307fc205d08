package catalog

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed prices.csv
var file string

// Builtin returns the built-in price book.
var Builtin = sync.OnceValue(func() *PriceBook {
	rows, err := Parse(file)
	if err != nil {
		panic("catalog: " + err.Error()) // a test parses the same file
	}
	return NewBook(rows, nil)
})

// columns are the columns of the file, in order. The first two are required;
// empty ones at the end of a row may be left out.
var columns = [...]string{
	"provider", "model", "input", "output", "cached", "write_5m", "write_1h", "batch", "from",
	"above", "long_input", "long_output", "long_cached", "long_write_5m", "long_write_1h",
	"reasoning", "audio_in", "audio_out", "request",
}

// Parse reads prices in the format of the file: CSV with a header line,
// comments after #, prices in dollars per million tokens, and prices of
// requests in dollars.
func Parse(text string) (rows []Price, err error) {
	r := csv.NewReader(strings.NewReader(text))
	r.Comment, r.FieldsPerRecord = '#', -1
	titles, err := r.Read()
	if err != nil || !slices.Equal(titles, columns[:]) {
		return nil, errors.New("prices begin with the titles of their columns")
	}
	for {
		fields, err := r.Read()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading prices: %w", err)
		}
		line, _ := r.FieldPos(0)
		cells := row{fields: fields}
		rows = append(rows, cells.price())
		if cells.err != nil {
			return nil, fmt.Errorf("line %d of prices: %w", line, cells.err)
		}
	}
}

// row is a line of the file. err is its first error.
type row struct {
	fields []string
	err    error
}

func (r *row) price() Price {
	if len(r.fields) > len(columns) {
		r.err = errors.New("more fields than titles")
	}
	p := Price{
		Provider: r.text("provider"), Model: r.text("model"), From: r.day("from"),
		Rates: r.rates("", map[string]Kind{"cached": CachedInput, "write_5m": CacheWrite5m, "write_1h": CacheWrite1h, "reasoning": Reasoning, "audio_in": InputAudio, "audio_out": OutputAudio}),
		Long:  r.rates("long_", map[string]Kind{"cached": CachedInput, "write_5m": CacheWrite5m, "write_1h": CacheWrite1h}),
		Above: r.number("above", 0), Request: NanoDollars(r.number("request", 9)), Batch: int(r.number("batch", 0)),
	}
	if p.Provider == "" || p.Model == "" {
		r.err = errors.New("a price names a provider and a model")
	}
	return p
}

// rates reads the columns with the prefix; input and output are required, the
// others optional.
func (r *row) rates(prefix string, further map[string]Kind) Rates {
	given := map[Kind]Rate{Input: r.rate(prefix + "input"), Output: r.rate(prefix + "output")}
	for title, kind := range further {
		if r.text(prefix+title) != "" {
			given[kind] = r.rate(prefix + title)
		}
	}
	return RatesOf(given)
}

func (r *row) rate(title string) Rate { return Rate(r.number(title, 6)) }

func (r *row) text(title string) string {
	if i := slices.Index(columns[:], title); i < len(r.fields) {
		return r.fields[i]
	}
	return ""
}

func (r *row) day(title string) time.Time {
	text := r.text(title)
	if text == "" {
		return time.Time{}
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		r.err = err
	}
	return day
}

// number reads a decimal number with the given number of digits after the
// point: with two digits, 1.5 is 150. More digits are an error.
func (r *row) number(title string, digits int) int64 {
	text := r.text(title)
	if text == "" {
		return 0
	}
	whole, part, _ := strings.Cut(text, ".")
	if len(part) > digits {
		r.err = fmt.Errorf("%s has more than %d decimals", title, digits)
		return 0
	}
	n, err := strconv.ParseUint(whole+part+strings.Repeat("0", digits-len(part)), 10, 48)
	if err != nil {
		r.err = fmt.Errorf("%s: %q is not a number that a price has", title, text)
	}
	return int64(n)
}
