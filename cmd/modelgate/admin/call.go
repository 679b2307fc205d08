package admin

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"modelgate/cmd/modelgate/gateway"
)

// call is one run of a verb.
type call struct {
	env    *Env
	ctx    context.Context
	to     *gateway.Client
	output *outputOptions
	noun   *noun
	verb   *verb
	route  *description
	in     *inputs

	query     url.Values
	named     string // the arguments as they were given
	workspace string // of the query, for lookups of names
}

// run makes the request, asks before if it removes something, and prints the response.
func (c *call) run() error {
	c.named = strings.Join(c.in.args, " ")
	if err := c.output.check(c.env, c.verb); err != nil {
		return err
	}
	if err := c.buildQuery(); err != nil {
		return err
	}
	body, err := c.buildBody()
	if err != nil {
		return err
	}
	if err := c.checkRequired(body); err != nil {
		return err
	}
	if err := c.confirm(); err != nil {
		return err
	}
	if c.in.isPaged() {
		return c.runList()
	}
	if c.verb.named != "" {
		if err := c.nameObject(body); err != nil {
			return err
		}
	}
	if c.verb.raw {
		return c.download()
	}
	response, err := c.request(body)
	if err != nil {
		return err
	}
	return c.print(response, body)
}

// request sends the request with its body.
func (c *call) request(body map[string]any) ([]byte, error) {
	if c.verb.form != "" {
		return c.upload(body)
	}
	return c.send(body)
}

// buildQuery sets the query from the flags.
func (c *call) buildQuery() error {
	c.query = make(url.Values)
	for _, i := range c.in.query {
		texts := i.texts
		if len(texts) == 0 && c.verb.since != "" && flagName(i.field.Name) == "since" {
			texts = []string{c.verb.since}
		}
		if len(texts) == 0 && c.verb.since != "" && flagName(i.field.Name) == "until" && i.field.Required {
			texts = []string{"+1m"}
		}
		if len(texts) == 0 {
			continue
		}
		if err := c.addToQuery(i.field, texts); err != nil {
			return err
		}
		if workspaceRank(i) == 0 {
			c.workspace = c.query.Get(i.field.Name)
		}
	}
	return nil
}

func (c *call) addToQuery(f *field, texts []string) error {
	v, err := (&input{f, texts}).value(c.env)
	if err != nil {
		return c.env.Usage("--%s %w", flagName(f.Name), err)
	}
	if text, ok := v.(string); ok && c.verb.idOf != "" && f.Name == "id" {
		v, err = c.resolveOwner(c.query.Get(c.verb.idOf), text)
	} else {
		v, err = c.resolveValue(f, v)
	}
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case []any:
		words := make([]string, len(v))
		for i, one := range v {
			words[i] = fmt.Sprint(one)
		}
		c.query.Set(f.Name, strings.Join(words, ","))
	case map[string]any: // a filter by metadata
		for key, one := range v {
			c.query.Set(f.Name+"."+key, fmt.Sprint(one))
		}
	default:
		c.query.Set(f.Name, fmt.Sprint(v))
	}
	return nil
}

// confirm asks whether to go on, if the verb asks.
func (c *call) confirm() error {
	if c.verb.asks == "" || c.in.yes {
		return nil
	}
	question := c.verb.asks
	if strings.Contains(question, "%s") {
		question = fmt.Sprintf(question, strings.Join(c.in.args, " "))
	}
	return c.env.confirm(question)
}

// confirm asks a question. It returns an error unless the answer is yes.
func (env *Env) confirm(question string) error {
	if !env.Terminal {
		return fmt.Errorf("%s needs a confirmation, and there is no terminal to ask at; add --yes", strings.TrimSuffix(question, "?"))
	}
	fmt.Fprintf(env.Err, "%s [y/N] ", stripControl(question))
	line, err := bufio.NewReader(io.LimitReader(env.In, 1<<10)).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	if answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil {
		fmt.Fprintln(env.Err)
	}
	return errors.New("nothing was changed")
}

// path returns the path with its parameters filled in. Each is one segment, whatever
// characters it has.
func (c *call) path(args []string) string {
	segments := strings.Split(c.route.Path, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") && len(args) > 0 {
			segments[i], args = escapeSegment(args[0]), args[1:]
		}
	}
	return strings.Join(segments, "/")
}

// isSegment reports whether text can be a segment of a path. Gateways accept none with an
// escaped slash, and "." and ".." are removed from paths.
func isSegment(text string) bool {
	return text != "" && text != "." && text != ".." && !strings.Contains(text, "/")
}

// escapeSegment returns a segment of a path, escaped as gateways expect it.
func escapeSegment(text string) string {
	return strings.TrimPrefix((&url.URL{Path: "/" + text}).EscapedPath(), "/")
}

// send sends the request. If an object is not found, its arguments are looked up as names, and
// the request is sent again.
func (c *call) send(body map[string]any) ([]byte, error) {
	if err := c.checkArgs(); err != nil {
		return nil, err
	}
	r := gateway.Request{Method: c.route.Method, Path: c.path(c.in.args), Query: c.query}
	if body != nil {
		var err error
		if r.Body, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	response, err := c.to.Do(c.ctx, r)
	if !isNotFound(err) {
		return response, err
	}
	args, changed, lookup := c.resolveArgs()
	switch {
	case lookup != nil:
		return nil, lookup
	case !changed:
		return nil, c.adviseList(err)
	}
	c.in.args = args
	r.Path = c.path(args)
	return c.to.Do(c.ctx, r)
}

// checkArgs replaces arguments that cannot be in a path by the ids of the objects with these
// names.
func (c *call) checkArgs() error {
	if !c.noun.uuids && !slices.ContainsFunc(c.in.args, func(arg string) bool { return !isSegment(arg) }) {
		return nil
	}
	args, _, err := c.resolveArgs()
	if err != nil {
		return err
	}
	for _, arg := range args {
		if !isSegment(arg) || c.noun.uuids && !id.MatchString(arg) {
			return c.adviseList(fmt.Errorf("%s %q not found", c.noun.one, arg))
		}
	}
	c.in.args = args
	return nil
}

func isNotFound(err error) bool {
	refused, ok := errors.AsType[*gateway.StatusError](err)
	return ok && refused.Code == http.StatusNotFound
}

// adviseList adds to the error for an unknown object which command lists what exists.
func (c *call) adviseList(err error) error {
	for _, p := range c.route.params() {
		if n := nounOf(pathNouns[p]); n != nil && n.verb("list") != nil {
			return fmt.Errorf("%w; `modelgate %s list` shows what exists", err, c.listed(n))
		}
	}
	if c.workspace != "" {
		return fmt.Errorf("%w; `modelgate workspaces list` shows workspaces", err)
	}
	return err
}

// listed returns the noun whose list has the objects of a parameter.
func (c *call) listed(n *noun) string {
	if c.noun.verb("list") != nil && pathNouns[c.route.params()[0]] == n.name {
		return c.noun.name
	}
	return n.name
}

// nameObject sets the member of the body that has the name of the object.
func (c *call) nameObject(body map[string]any) error {
	if _, given := body[c.verb.named]; given {
		return nil
	}
	show := c.noun.verb("show")
	other := &call{env: c.env, ctx: c.ctx, to: c.to, noun: c.noun, verb: show, route: show.route(),
		in: &inputs{env: c.env, verb: show, route: show.route(), args: c.in.args}, query: make(url.Values)}
	response, err := other.send(nil)
	if err != nil {
		return err
	}
	var object map[string]any
	if err := json.Unmarshal(response, &object); err != nil {
		return errShape
	}
	c.in.args = other.in.args
	body[c.verb.named] = object[c.verb.named]
	return nil
}

var errShape = errors.New("the response has another form than this command knows; use the same version as the gateway")

// page is a page of a list.
type page struct {
	Data []json.RawMessage `json:"data"`
	Next *string           `json:"next_cursor"`
	More bool              `json:"has_more"`
	Last string            `json:"last_id"` // of lists in OpenAI's form, which go on after it
	All  int               `json:"total"`
}

// runList fetches pages until the limit and prints the rows.
func (c *call) runList() error {
	if c.in.list.limit < 1 {
		return c.env.Usage("--limit must be at least 1; --all has no limit")
	}
	rows, more, err := c.fetch(c.in.list)
	if err != nil {
		return err
	}
	return c.printRows(rows, more)
}

// maxRows is the limit of the rows of a list.
const maxRows = 1_000_000

// fetch returns rows of a list up to a limit, and how many more there are at least.
func (c *call) fetch(o listOptions) (rows []json.RawMessage, more int, err error) {
	sizeParam := c.route.pageParam()
	most := cmp.Or(c.route.param(sizeParam).Most, 100)
	seen := make(map[string]bool)
	for {
		size := min(most, 1000)
		if !o.all {
			size = min(size, o.limit)
		}
		c.query.Set(sizeParam, strconv.Itoa(size))
		response, err := c.send(nil)
		if err != nil {
			return nil, 0, err
		}
		var p page
		if json.Unmarshal(response, &p) != nil {
			return nil, 0, errShape
		}
		rows = append(rows, p.Data...)
		next, param := p.Last, "after"
		if p.Next != nil {
			next, param = *p.Next, "cursor"
		}
		end := !p.More && p.Next == nil || next == "" || seen[next] || len(p.Data) == 0
		if end || !o.all && len(rows) >= o.limit {
			more = max(0, p.All-len(rows))
			if !end {
				more = max(1, more)
			}
			break
		}
		if len(rows) >= maxRows {
			return nil, 0, fmt.Errorf("the list has more than %d rows; narrow it with filters", maxRows)
		}
		seen[next] = true
		c.query.Set(param, next)
	}
	if !o.all && len(rows) > o.limit {
		more += len(rows) - o.limit
		rows = slices.Clip(rows[:o.limit])
	}
	return rows, more, nil
}
