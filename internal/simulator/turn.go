package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
)

// A turn is the part of a conversation request that the simulator uses,
// independent of the protocol.
type turn struct {
	model     string
	stream    bool
	lastUser  string // text
	afterTool bool   // the last message has tool results
	prefill   bool   // the last message is the assistant's
	trailing  bool   // and ends in white space
	local     bool   // media must be in the request, not at a URL
	tools     []offer
	mode      string // none, any, tool; with empty and auto the model decides
	only      string // the tool of mode tool
	serial    bool   // one call at most
	limit     int    // tokens, 0 for none
	stops     []string
	format    string // json, schema or empty
	schema    any    // of format schema
	thinks    bool
	summary   bool // thinking is sent
	sealed    bool // encrypted thinking is requested
	prompt    int  // tokens
	seen      Report
	state     *responseState // of the responses protocol, else nil
}

// An offer is a tool of a request.
type offer struct {
	name   string
	schema any
}

// A Report is the response to the fault report: the content of the request, as
// the simulator understood it. Its members are the same in all protocols.
type Report struct {
	Dialect string `json:"dialect"`
	Model   string `json:"model"`
	// Members are the names of the body's members, sorted.
	Members []string `json:"members"`
	// System is the text of all instructions, joined by line feeds.
	System string `json:"system"`
	// Roles and Texts have an entry for each message except system messages.
	Roles []string `json:"roles"`
	Texts []string `json:"texts"`

	Images    int `json:"images"`
	Documents int `json:"documents"`
	Audio     int `json:"audio"`
	Videos    int `json:"videos"`

	Tools      []string `json:"tools"`
	ToolChoice string   `json:"tool_choice"`
	Serial     bool     `json:"serial"`

	Calls    []ReportedCall    `json:"calls"`
	Results  []ReportedResult  `json:"results"`
	Thinking []ReportedThought `json:"thinking"`

	// Format is json, schema or empty; Schema is the schema of format schema.
	Format string `json:"format"`
	Schema any    `json:"schema"`

	Stream      bool     `json:"stream"`
	MaxTokens   int      `json:"max_tokens"`
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	TopK        *float64 `json:"top_k"`
	Seed        *float64 `json:"seed"`
	Stop        []string `json:"stop"`
	// Thinks is true if thinking is requested, Effort is the named effort, and
	// Budget the token budget.
	Thinks bool   `json:"thinks"`
	Effort string `json:"effort"`
	Budget int    `json:"budget"`
	// CachePoints is the number of cache marks.
	CachePoints int `json:"cache_points"`
}

// A ReportedCall is a tool call of the conversation so far.
type ReportedCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments any    `json:"arguments"`
	// Signature is the signature of the call itself, in protocols that have it
	// there.
	Signature string `json:"signature"`
}

// A ReportedResult is the result of a tool.
type ReportedResult struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Failed bool   `json:"failed"`
}

// A ReportedThought is thinking that came back.
type ReportedThought struct {
	Text      string `json:"text"`
	Signature string `json:"signature"`
	Redacted  bool   `json:"redacted"`
}

// addMessage records a message and counts its text.
func (q *turn) addMessage(role, text string) {
	q.seen.Roles = append(q.seen.Roles, role)
	q.seen.Texts = append(q.seen.Texts, text)
	q.prompt += tokensPerMessage + tokensOf(len(text))
	if role == "user" && (text != "" || !q.afterTool) {
		q.lastUser = text
	}
}

// addSystem records a system text.
func (q *turn) addSystem(text string) {
	if q.seen.System != "" {
		q.seen.System += "\n"
	}
	q.seen.System += text
	q.prompt += tokensPerMessage + tokensOf(len(text))
}

// addTool records a tool.
func (q *turn) addTool(name string, schema any) {
	q.tools = append(q.tools, offer{name, schema})
	q.seen.Tools = append(q.seen.Tools, name)
	raw, _ := json.Marshal(schema) // it came from valid JSON
	q.prompt += tokensOf(len(name) + len(raw))
}

// report finishes the report and returns it as JSON.
func (q *turn) report(x *exchange, members map[string]any) {
	s := &q.seen
	s.Dialect, s.Model, s.Stream = protocolNames[x.protocol.place()], q.model, q.stream
	s.ToolChoice, s.Serial, s.Stop, s.MaxTokens = q.mode, q.serial, q.stops, q.limit
	if q.mode == "tool" {
		s.ToolChoice = q.only
	}
	s.Format, s.Schema, s.Thinks = q.format, q.schema, q.thinks
	s.Members = sortedNames(members)
}

func sortedNames(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// open reads and decodes a body and counts the call. It returns false if the
// request is over. model is the model in the path; nil if it is in the body.
func (x *exchange) open(model *string) (map[string]any, bool) {
	if !x.readBody() {
		return nil, false
	}
	body, ok := x.decodeObject()
	if !ok {
		return nil, false
	}
	name, _ := body["model"].(string)
	if model != nil {
		name = *model
	}
	if asked, ok := body["stream"].(bool); ok {
		x.asked = asked
	}
	return body, x.begin(appendRaw(nil, name))
}

// decodeObject decodes the body. It returns false after an error response.
func (x *exchange) decodeObject() (body map[string]any, ok bool) {
	if err := json.Unmarshal(x.in, &body); err != nil {
		x.refuse(statusOf, providerError{kind: invalidRequest, message: "the body is not a JSON object: " + err.Error()})
		return nil, false
	}
	return body, true
}

// accept completes a turn that has been read: it sends an error for mistakes,
// counts the prompt, and reports whether there should be a response.
func (x *exchange) accept(q *turn, c *checker, body map[string]any) bool {
	if c.wrong.kind == "" {
		c.wrong = checkModel(q.model, q.limit, q.seen.Effort, q.seen.Budget)
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return false
	}
	if x.plan.noPrefill && q.prefill {
		x.refuse(http.StatusBadRequest, prefilled)
		return false
	}
	q.report(x, body)
	x.bill(q.prompt)
	return true
}

// bill records the tokens of the prompt.
func (x *exchange) bill(prompt int) {
	x.cached = x.plan.cached
	x.prompt = prompt + x.plan.cached + x.plan.written
}
