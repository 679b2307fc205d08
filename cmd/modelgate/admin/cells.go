package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxCell is the limit of a cell, in characters.
const maxCell = 60

// printTable prints rows with aligned columns.
func printTable(w io.Writer, columns []column, rows []any, o *outputOptions) error {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.wide && o.format != formatWide })
	var lines [][]string
	if !o.noHeaders {
		heads := make([]string, len(columns))
		for i, c := range columns {
			heads[i] = c.head
		}
		lines = append(lines, heads)
	}
	now := time.Now()
	for _, object := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = cut(stripControl(c.cell(object, now)), o.format == formatWide)
		}
		lines = append(lines, cells)
	}
	return printLines(w, lines)
}

// printLines prints cells in columns of the width of their longest cell.
func printLines(w io.Writer, lines [][]string) error {
	var widths []int
	for _, cells := range lines {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for _, cells := range lines {
		var line strings.Builder
		for i, cell := range cells {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// cut shortens a cell, except in wide tables.
func cut(text string, wide bool) string {
	if runes := []rune(text); len(runes) > maxCell && !wide {
		return string(runes[:maxCell-1]) + "…"
	}
	return text
}

// cell returns the text of a column for an object.
func (c *column) cell(object any, now time.Time) string {
	v := member(object, c.path)
	if v == nil {
		return "-"
	}
	number := func() (float64, bool) {
		n, ok := v.(json.Number)
		f, err := n.Float64()
		return f, ok && err == nil
	}
	switch c.kind {
	case "time":
		if text, ok := v.(string); ok {
			if t, err := time.Parse(time.RFC3339, text); err == nil {
				return shortTime(t, now)
			}
		}
	case "unix":
		if n, ok := number(); ok {
			return shortTime(time.Unix(int64(n), 0), now)
		}
	case "usd":
		if n, ok := number(); ok {
			return dollars(n)
		}
	case "cents":
		if n, ok := number(); ok {
			return dollars(n / 100)
		}
	case "limit": // of a budget: dollars, or tokens
		if n, ok := number(); ok {
			if kind, _ := member(object, append(slices.Clone(c.path[:len(c.path)-1]), "type")).(string); kind != "cost" && kind != "" {
				return strconv.FormatFloat(n, 'f', -1, 64) + " " + kind
			}
			return dollars(n)
		}
	case "name": // of the object whose id is here; the id, such as of a deleted object, without one
		last := len(c.path) - 1
		sibling := append(slices.Clone(c.path[:last]), strings.TrimSuffix(c.path[last], "_id")+"_name")
		if name, ok := member(object, sibling).(string); ok && name != "" {
			return name
		}
	case "percent":
		if n, ok := number(); ok {
			return strconv.FormatFloat(math.Round(n*10)/10, 'f', -1, 64) + "%"
		}
	case "ms":
		if n, ok := number(); ok {
			return strconv.FormatFloat(math.Round(n), 'f', -1, 64) + " ms"
		}
	}
	return plain(v)
}

// dollars returns an amount of US dollars.
func dollars(n float64) string {
	digits := 2
	if n != 0 && math.Abs(n) < 1 {
		digits = 4
	}
	return strings.Replace("$"+strconv.FormatFloat(n, 'f', digits, 64), "$-", "-$", 1)
}

// member returns the value at a path in an object, nil if there is none. Of a list, it is the
// first element that has it.
func member(v any, path []string) any {
	for i, step := range path {
		switch at := v.(type) {
		case map[string]any:
			v = at[step]
		case []any:
			for _, one := range at {
				if found := member(one, path[i:]); found != nil {
					return found
				}
			}
			return nil
		default:
			return nil
		}
	}
	return v
}

// plain returns a value as text.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		if v == "" {
			return "-"
		}
		return v
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case json.Number:
		return v.String()
	case []any:
		words := make([]string, len(v))
		for i, one := range v {
			words[i] = plain(one)
		}
		if len(words) == 0 {
			return "-"
		}
		return strings.Join(words, ",")
	case map[string]any:
		return plainObject(v)
	}
	return fmt.Sprint(v)
}

// plainObject returns an object as pairs, or a limit in its short form.
func plainObject(v map[string]any) string {
	kind, _ := v["type"].(string)
	if unit, ok := v["unit"].(string); ok && v["value"] != nil && len(v) <= 4 {
		return rateText(kind, unit, plain(v["value"]))
	}
	var pairs []string
	for name, one := range v {
		pairs = append(pairs, name+"="+plain(one))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// rateText returns a rate limit in the form of --rate.
func rateText(kind, unit, value string) string {
	if unit == "concurrent" {
		return value + unit
	}
	if period, ok := strings.CutPrefix(unit, "rp"); ok && kind == "tokens" {
		return value + "tp" + period
	}
	return value + unit
}

// printDetails prints the members of an object, a line for each.
func printDetails(w io.Writer, response []byte) error {
	object := decode(response)
	members, ok := object.(map[string]any)
	if !ok {
		return printJSON(w, response)
	}
	var lines [][]string
	addDetails(&lines, "", members, time.Now())
	return printLines(w, lines)
}

// detailKinds say how members of objects are written; see [column.cell].
var detailKinds = map[string]string{"credit_limit": "limit", "current_usage": "limit", "alert_threshold": "limit", "cost": "cents"}

// firstDetails are members that come first, in this order.
var firstDetails = []string{"id", "slug", "name", "status"}

func addDetails(lines *[][]string, prefix string, members map[string]any, now time.Time) {
	rank := func(name string) int {
		if at := slices.Index(firstDetails, name); at >= 0 {
			return at
		}
		return len(firstDetails)
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if rank(a) != rank(b) {
			return rank(a) - rank(b)
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		switch v := members[name].(type) {
		case nil:
			continue
		case map[string]any:
			addDetails(lines, prefix+name+".", v, now)
		case []any:
			addList(lines, prefix+name, v, now)
		case string:
			if v == "" || name == "object" {
				continue
			}
			if t, err := time.Parse(time.RFC3339, v); err == nil {
				v = t.Local().Format(time.DateTime) + " (" + shortTime(t, now) + ")"
			}
			for i, line := range strings.Split(v, "\n") {
				head := prefix + name + ":"
				if i > 0 {
					head = ""
				}
				*lines = append(*lines, []string{stripControl(head), stripControl(line)})
			}
		default:
			shown := column{path: []string{name}, kind: detailKinds[name]}
			if strings.HasSuffix(name, "_at") {
				shown.kind = "unix"
			}
			*lines = append(*lines, []string{stripControl(prefix + name + ":"), stripControl(shown.cell(members, now))})
		}
	}
}

func addList(lines *[][]string, name string, list []any, now time.Time) {
	for i, one := range list {
		object, ok := one.(map[string]any)
		if !ok || object["unit"] != nil {
			*lines = append(*lines, []string{stripControl(name + ":"), stripControl(plain(list))})
			return
		}
		addDetails(lines, fmt.Sprintf("%s[%d].", name, i), object, now)
	}
}
