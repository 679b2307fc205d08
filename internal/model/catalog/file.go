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
var Builtin = sync.OnceValue(func() *PriceBook { return NewBook(BuiltinRows(), nil) })

// BuiltinRows returns the rows of the built-in price book.
func BuiltinRows() []Price {
	rows, err := Parse(file)
	if err != nil {
		panic("catalog: " + err.Error()) // a test parses the same file
	}
	return rows
}

// BuiltinText returns the built-in price book as a file.
func BuiltinText() string { return file }

// Comments returns the comments of a file, which are complete lines.
func Comments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// columns are the columns of the file, in order. The first two are required;
// empty ones at the end of a row may be left out.
var columns = [...]string{
	"provider", "model", "source", "read", "input", "output", "cached", "write_5m", "write_1h", "batch", "from",
	"above", "long_input", "long_output", "long_cached", "long_write_5m", "long_write_1h",
	"reasoning", "audio_in", "audio_out", "request", "flex", "priority", "image_in", "image_out", "image", "second", "characters",
	"training",
}

// rateColumns are the columns of further prices of tokens.
var rateColumns = map[string]Kind{
	"cached": CachedInput, "write_5m": CacheWrite5m, "write_1h": CacheWrite1h, "reasoning": Reasoning,
	"audio_in": InputAudio, "audio_out": OutputAudio, "image_in": InputImage, "image_out": OutputImage,
}

// longColumns are those of long requests, without their prefix.
var longColumns = map[string]Kind{"cached": CachedInput, "write_5m": CacheWrite5m, "write_1h": CacheWrite1h}

// Parse reads prices in the format of the file: CSV with a header line,
// comments after #, prices in dollars per million tokens or characters, and
// prices of requests, images and seconds of audio in dollars. An absent price is
// unknown; a price of 0 is free. A row without any price is an error.
func Parse(text string) (rows []Price, err error) {
	r := csv.NewReader(strings.NewReader(text))
	r.Comment, r.FieldsPerRecord = '#', -1
	titles, err := r.Read()
	if err != nil || !slices.Equal(titles, columns[:]) {
		return nil, fmt.Errorf("the first line must be the column names %q", strings.Join(columns[:], ","))
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
		Provider: r.text("provider"), Model: r.text("model"), Source: r.text("source"), Read: r.text("read"), From: r.day("from"),
		Rates: r.rates("", rateColumns), NoInput: r.text("input") == "", NoOutput: r.text("output") == "",
		Long: r.rates("long_", longColumns), Above: r.number("above", 0), Request: NanoDollars(r.number("request", 9)),
		Batch: r.percent("batch", 100), Flex: r.percent("flex", 100), Priority: r.percent("priority", 10_000), Units: r.units(),
	}
	r.day("read")
	if p.NoInput && p.NoOutput && p.Units == nil && r.text("request") == "" && r.err == nil {
		r.err = errors.New("a price has a figure; write 0 for a free model")
	}
	if (p.Above == 0) != (r.text("long_input") == "") && r.err == nil {
		r.err = errors.New("above and long_input are given together")
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
	if prefix != "" && r.text(prefix+"output") == "" {
		given[Output] = r.rate("output")
	}
	for title, kind := range further {
		if r.text(prefix+title) != "" {
			given[kind] = r.rate(prefix + title)
		}
	}
	return RatesOf(given)
}

// percent reads a percentage.
func (r *row) percent(title string, most int64) int {
	n := r.number(title, 0)
	if n > most {
		r.err = fmt.Errorf("%s is more than %d percent", title, most)
	}
	return int(n)
}

// units reads the prices of what is not sold by tokens, nil for none.
func (r *row) units() *UnitPrices {
	if r.text("image")+r.text("second")+r.text("characters")+r.text("training") == "" {
		return nil
	}
	u := &UnitPrices{Second: NanoDollars(r.number("second", 9)), Character: r.rate("characters"), Training: r.rate("training")}
	if text := r.text("image"); text != "" {
		var err error
		if u.Images, err = parseImages(text); err != nil {
			r.err = err
		}
	}
	return u
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
	n, err := decimal(text, digits)
	if err != nil {
		r.err = fmt.Errorf("%s: %w", title, err)
	}
	return n
}

// decimal reads a decimal number as number does.
func decimal(text string, digits int) (int64, error) {
	integer, part, _ := strings.Cut(text, ".")
	if len(part) > digits {
		return 0, fmt.Errorf("more than %d decimals", digits)
	}
	n, err := strconv.ParseUint(integer+part+strings.Repeat("0", digits-len(part)), 10, 48)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number that a price has", text)
	}
	return int64(n), nil
}

// appendDecimal appends n in the form that decimal reads.
func appendDecimal(b []byte, n int64, digits int) []byte {
	unit := int64(1)
	for range digits {
		unit *= 10
	}
	b = strconv.AppendInt(b, n/unit, 10)
	if n%unit == 0 {
		return b
	}
	part := strconv.FormatInt(unit+n%unit, 10)[1:]
	return append(append(b, '.'), strings.TrimRight(part, "0")...)
}
