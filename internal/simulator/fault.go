package simulator

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HeaderFault selects faults for one request and takes precedence over the
// model's name: fault=value+fault=value.
const HeaderFault = "X-Simulator-Fault"

// Fault describes one way to misbehave.
type Fault struct {
	// Name is the word that selects the fault.
	Name string
	// Form is its syntax, with a value if it has one.
	Form string
	// Text describes in one line what the provider does.
	Text string
}

// A plan holds the faults of one request.
type plan struct {
	shape
	limits
	faultEffect
}

// shape is the form of a response; it remains when the faults are over.
type shape struct {
	tokens  int           // length of the response, 0 for the default
	size    int           // bytes of text in a frame
	pace    time.Duration // between frames
	hasPace bool
	jobShape
	script
}

// jobShape is how a job or a response in the background moves on.
type jobShape struct {
	reads    int
	takes    time.Duration
	hasTakes bool
}

// jobFaults are faults of objects that the provider stores.
type jobFaults struct {
	job         string // a mode
	lost        bool   // the object is stored and the response is not sent
	halfContent bool   // files with results are cut
	oddResults  bool   // lines of results are missing or doubled
}

// script is the content of a response.
type script struct {
	thinking            int // tokens
	report, refusal     bool
	calls               int
	callIDs             int // characters, 0 for the default
	preface, interleave bool
	cached, written     int // of the prompt's tokens
	image, generated    bool
}

// limits say to which calls the faults apply.
type limits struct {
	times, every int
	flap         time.Duration
	quota        int
	quotaName    string
}

// faultEffect holds the effects of faults. Its zero value is a provider without
// faults.
type faultEffect struct {
	status                         int
	retryAfter, retryAfterMS       string
	headers, first, stall          time.Duration
	stallAt                        int
	cut                            int // frames (or bytes) before the cut, plus 1
	clean                          bool
	malformed, errorEvent          int // frame number, 0 for none
	badCRC, torn                   int // likewise
	contentType                    string
	reset, hang                    bool
	noDone, noBlank, noUsage       bool
	html                           bool
	gzip, gzipBomb                 bool
	lies                           int // added to the true length
	huge                           int64
	earlyHints, trailers           bool
	jsonForStream, sseForJSON      bool
	contextLength, contentFilter   bool
	modelNotFound, noPrefill       bool
	turns                          string
	duplicateLength, smuggle       bool
	crlf, comments, bom, eventLine bool
	redirect, cookie               string
	extraName, extraValue          string
	jobFaults
}

// faultSpec is a fault with the function that adds its value to the plan.
type faultSpec struct {
	Fault
	set func(p *plan, value string) error
}

// Faults returns every fault, in the order of the documentation. Model names
// have them as suffixes, NAME+fault=value+fault=value, and [HeaderFault] has
// them without the name. A value is percent-decoded, so %2B means a plus sign.
func Faults() []Fault {
	list := make([]Fault, len(faultTable))
	for i, f := range faultTable {
		list[i] = f.Fault
	}
	return list
}

// parsePlan parses fault=value+fault=value. Empty items are ignored, since
// names of real models may end in a plus sign.
func parsePlan(text string) (p plan, err error) {
	for text != "" {
		var item string
		item, text = cutItem(text)
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		if err := p.add(item); err != nil {
			return plan{}, err
		}
	}
	return p, nil
}

// cutItem cuts off the first item. A plus sign directly after an equals sign
// belongs to the value.
func cutItem(text string) (item, rest string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '+' && (i == 0 || text[i-1] != '=') {
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

func (p *plan) add(item string) error {
	name, value, _ := strings.Cut(item, "=")
	for i := range faultTable {
		f := &faultTable[i]
		if f.Name != name {
			continue
		}
		value, err := url.PathUnescape(value)
		if err == nil {
			err = f.set(p, value)
		}
		if err != nil {
			return fmt.Errorf("fault %s: %w; write it as %s", name, err, f.Form)
		}
		return nil
	}
	return fmt.Errorf("there is no fault %q; `modelgate simulate --help` lists them", name)
}

// clearFaults removes the faults and keeps the shape.
func (p *plan) clearFaults() { p.faultEffect = faultEffect{} }

// streams reports whether a response is sent as a stream. asked is true if the
// request asks for one.
func (h *faultEffect) streams(asked bool) bool {
	if h.lies != 0 || h.duplicateLength || h.smuggle || h.jsonForStream {
		return false
	}
	return asked || h.sseForJSON
}

func flag(field func(p *plan) *bool) func(*plan, string) error {
	return func(p *plan, value string) error {
		if value != "" {
			return fmt.Errorf("takes no value")
		}
		*field(p) = true
		return nil
	}
}

func text(field func(p *plan) *string) func(*plan, string) error {
	return func(p *plan, value string) error {
		if value == "" || strings.ContainsAny(value, "\r\n\x00") {
			return fmt.Errorf("needs a value of one line")
		}
		*field(p) = value
		return nil
	}
}

// word sets a value that must be one of words.
func word(field func(p *plan) *string, words ...string) func(*plan, string) error {
	return func(p *plan, value string) error {
		if !slices.Contains(words, value) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		*field(p) = value
		return nil
	}
}

func integerParam(low, high int, field func(p *plan) *int) func(*plan, string) error {
	return func(p *plan, value string) error {
		n, err := parseInteger(value, low, high)
		if err == nil {
			*field(p) = n
		}
		return err
	}
}

func parseInteger(value string, low, high int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is not an integer from %d to %d", value, low, high)
	}
	return n, nil
}

func delay(field func(p *plan) *time.Duration) func(*plan, string) error {
	return func(p *plan, value string) error {
		d, err := parseDelay(value)
		if err == nil {
			*field(p) = d
		}
		return err
	}
}

func parseDelay(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration such as 20s or 10ms", value)
	}
	return d, nil
}

// parseSize parses a number of bytes with an optional decimal or binary unit.
func parseSize(value string) (int64, error) {
	units := []struct {
		name string
		size int64
	}{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
		{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1},
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(value, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 1 || n > maxHuge/u.size {
			break
		}
		return n * u.size, nil
	}
	return 0, fmt.Errorf("%q is not a size such as 100MB, at most 64GiB", value)
}

const maxHuge = 64 << 30

func setCut(p *plan, value string) error {
	count, how, found := strings.Cut(value, ",")
	if found && how != "clean" {
		return fmt.Errorf("%q is not clean", how)
	}
	n, err := parseInteger(count, 0, 1<<30)
	if err != nil {
		return err
	}
	p.cut, p.clean = n+1, found
	return nil
}

func setStall(p *plan, value string) error {
	length, at, found := strings.Cut(value, "@")
	if !found {
		at = "2"
	}
	var err error
	if p.stall, err = parseDelay(length); err != nil {
		return err
	}
	p.stallAt, err = parseInteger(at, 1, 1<<30)
	return err
}

func setLength(p *plan, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a difference such as +10 or -10", value)
	}
	p.lies = n
	return nil
}

func setPace(p *plan, value string) (err error) {
	p.pace, err = parseDelay(value)
	p.hasPace = true
	return err
}

func setTakes(p *plan, value string) (err error) {
	p.takes, err = parseDelay(value)
	p.hasTakes = true
	return err
}

func setHuge(p *plan, value string) (err error) {
	p.huge, err = parseSize(value)
	return err
}

func setHTMLError(p *plan, value string) (err error) {
	p.html = true
	p.status, err = parseInteger(value, 300, 599)
	return err
}

func setQuota(p *plan, value string) (err error) {
	count, name, _ := strings.Cut(value, "@")
	p.quotaName = name
	p.quota, err = parseInteger(count, 1, 1<<30)
	return err
}

func setHeader(p *plan, value string) error {
	name, content, found := strings.Cut(value, ":")
	if !found || name == "" || strings.ContainsAny(value, "\r\n\x00") {
		return fmt.Errorf("%q is not a header such as Name:Value", value)
	}
	p.extraName, p.extraValue = name, strings.TrimSpace(content)
	return nil
}
