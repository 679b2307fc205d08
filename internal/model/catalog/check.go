package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a plausible price.
const (
	maxModelName = 256           // bytes
	maxLength    = 1_000_000_000 // tokens from which a request is long
)

// CheckPlausible returns an error if the figures of a price are implausible. The
// limits are generous: no known price is near them.
func (p *Price) CheckPlausible() error {
	const dollar = 1_000_000
	for i, r := range [...]Rates{p.Rates, p.Long} {
		if i == 1 && p.Above == 0 {
			break
		}
		in, out := r[Input], r[Output]
		switch {
		case in > 1000*dollar || out > 2000*dollar:
			return fmt.Errorf("%s in and %s out are more than any model costs", dollars(in), dollars(out))
		case in == 0 && out > 0 && !p.NoInput:
			return errors.New("free input, but not output")
		case in > 0 && out > 200*in:
			return fmt.Errorf("%s out for %s in", dollars(out), dollars(in))
		case r[CachedInput] > in || r[CachedInput] < in/250:
			return fmt.Errorf("cached input costs %s, input %s", dollars(r[CachedInput]), dollars(in))
		case r[CacheWrite5m] < in/2 || r[CacheWrite1h] < r[CacheWrite5m] || r[CacheWrite5m] > 2*in+in/2 || r[CacheWrite1h] > 4*in:
			return fmt.Errorf("writing to a cache costs %s and %s, input %s", dollars(r[CacheWrite5m]), dollars(r[CacheWrite1h]), dollars(in))
		case max(r[InputAudio], r[InputImage]) > 1000*dollar || max(r[OutputAudio], r[OutputImage], r[Reasoning]) > 2000*dollar:
			return errors.New("audio or images cost more than any model charges")
		}
	}
	switch {
	case p.Model == "" || len(p.Model) > maxModelName || strings.ContainsFunc(p.Model, unicode.IsControl) || !utf8.ValidString(p.Model):
		return fmt.Errorf("the name of a model must have 1 to %d bytes without control characters", maxModelName)
	case p.Above < 0 || p.Above > maxLength:
		return fmt.Errorf("requests of %d tokens do not exist", p.Above)
	case p.Above > 0 && (p.Long[Input] < p.Rates[Input] || p.Long[Output] < p.Rates[Output]):
		return errors.New("long requests cost less than short ones")
	case p.Above > 0 && p.Above < 8000:
		return fmt.Errorf("requests of %d tokens are not long", p.Above)
	case p.Request > 1e9:
		return errors.New("a request costs more than a dollar")
	case p.Batch > 0 && p.Batch < 10 || p.Flex > 0 && p.Flex < 10 || p.Priority > 0 && p.Priority < 100:
		return errors.New("the percentage of a tier is not likely")
	}
	return nil
}

// dollars returns a rate as dollars per million tokens.
func dollars(r Rate) string { return "$" + string(appendDecimal(nil, int64(r), 6)) }

// CompareRows orders rows as in the file: by provider, model and day.
func CompareRows(a, b Price) int {
	return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model), a.From.Compare(b.From))
}

// SameFigures reports whether two prices cost the same for any request, except
// for tiers that only one of them has. Their days do not matter.
func (p *Price) SameFigures(q *Price) bool {
	a, b := *p, *q
	a.From, b.From = time.Time{}, time.Time{}
	for _, tier := range [...]*[2]*int{{&a.Batch, &b.Batch}, {&a.Flex, &b.Flex}, {&a.Priority, &b.Priority}} {
		if *tier[0] == 0 || *tier[1] == 0 {
			*tier[0], *tier[1] = 0, 0
		}
	}
	return string(a.appendFigures(nil)) == string(b.appendFigures(nil))
}

// Format returns the rows as a file that [Parse] reads, after the comments, which
// are complete lines.
func Format(comments string, rows []Price) []byte {
	b := append([]byte(comments), strings.Join(columns[:], ",")...)
	b = append(b, '\n')
	for i := range rows {
		b = rows[i].appendRow(b)
	}
	return b
}

// appendRow appends the row in the form that [Parse] reads, with a line end.
func (p *Price) appendRow(b []byte) []byte {
	start := len(b)
	for i, text := range [...]string{p.Provider, p.Model, p.Source, p.Read} {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCell(b, text)
	}
	b = append(b, ',')
	b = p.appendFigures(b)
	for len(b) > start && b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, '\n')
}

// appendCell appends a text, in quotes if necessary.
func appendCell(b []byte, text string) []byte {
	if !strings.ContainsAny(text, ",\"\n\r# ") {
		return append(b, text...)
	}
	return append(append(append(b, '"'), strings.ReplaceAll(text, `"`, `""`)...), '"')
}

// appendFigures appends the columns from input on.
func (p *Price) appendFigures(b []byte) []byte {
	cell := func(n int64, digits int, given bool) {
		if given {
			b = appendDecimal(b, n, digits)
		}
		b = append(b, ',')
	}
	of := func(r *Rates, kind Kind) { cell(int64(r[kind]), 6, r[kind] != r[fallbackKind[kind]]) }
	long := p.Above > 0
	cell(int64(p.Rates[Input]), 6, !p.NoInput)
	cell(int64(p.Rates[Output]), 6, !p.NoOutput)
	of(&p.Rates, CachedInput)
	of(&p.Rates, CacheWrite5m)
	of(&p.Rates, CacheWrite1h)
	cell(int64(p.Batch), 0, p.Batch > 0)
	if !p.From.IsZero() {
		b = p.From.AppendFormat(b, time.DateOnly)
	}
	b = append(b, ',')
	cell(p.Above, 0, long)
	cell(int64(p.Long[Input]), 6, long)
	cell(int64(p.Long[Output]), 6, long && !p.NoOutput)
	for _, kind := range [...]Kind{CachedInput, CacheWrite5m, CacheWrite1h} {
		cell(int64(p.Long[kind]), 6, long && p.Long[kind] != p.Long[fallbackKind[kind]])
	}
	of(&p.Rates, Reasoning)
	of(&p.Rates, InputAudio)
	of(&p.Rates, OutputAudio)
	cell(int64(p.Request), 9, p.Request > 0)
	cell(int64(p.Flex), 0, p.Flex > 0)
	cell(int64(p.Priority), 0, p.Priority > 0)
	of(&p.Rates, InputImage)
	of(&p.Rates, OutputImage)
	u := p.Units
	if u == nil {
		u = new(UnitPrices)
	}
	b = append(appendImages(b, u.Images), ',')
	cell(int64(u.Second), 9, u.Second > 0)
	cell(int64(u.Character), 6, u.Character > 0)
	cell(int64(u.Training), 6, u.Training > 0)
	return b
}

// Figures returns the figures of a price as text, for people: the columns of the
// file that have a value, by name.
func (p *Price) Figures() string {
	cells := strings.Split(string(p.appendFigures(nil)), ",")
	var parts []string
	for i, title := range columns[len(columns)-len(cells)+1:] {
		if cells[i] != "" {
			parts = append(parts, title+" "+cells[i])
		}
	}
	return strings.Join(parts, ", ")
}

// Age returns the number of days since the price was read, and false if the row
// does not say when.
func (p *Price) Age(now time.Time) (days int, ok bool) {
	read, err := time.Parse(time.DateOnly, p.Read)
	return int(now.Sub(read).Hours() / 24), err == nil
}
