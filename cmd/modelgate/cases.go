package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"modelgate/config"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/oserr"
	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/snapshot"
	"modelgate/internal/upstream"
)

// routeCase is a test case of a config: a request, and where it is routed. The cases
// for NAME.json are in NAME.cases.json in the same folder.
type routeCase struct {
	Name string `json:"name"`
	dataplane.ExplainRequest
	Expect struct {
		Target   string          `json:"target"`   // JSON path such as config.targets[1]
		Provider string          `json:"provider"` // id or @slug
		Model    string          `json:"model"`
		Status   int             `json:"status"` // of a rejection; absent if the request must be sent
		Body     json.RawMessage `json:"body"`   // fields that the upstream body must have
	} `json:"expect"`
}

// checkConfig checks a config object and runs its cases.
func checkConfig(ctx context.Context, p *program, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return oserr.File(err)
	}
	c, err := config.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := c.CheckProviders(providerIDs()); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	cases, err := readCases(strings.TrimSuffix(file, ".json") + ".cases.json")
	if err != nil {
		return err
	}
	plane, who, err := offline(c)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	failed := 0
	for i, rc := range cases {
		rc.Config = text
		if problems := rc.compare(plane.Explain(ctx, who, rc.ExplainRequest)); len(problems) > 0 {
			failed++
			fmt.Fprintf(p.out, "FAIL case %d %q: %s\n", i, rc.Name, strings.Join(problems, "; "))
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s: %d of %s failed", file, failed, counted(len(cases), "case"))
	}
	fmt.Fprintf(p.out, "%s is valid, %s passed\n", file, counted(len(cases), "case"))
	return nil
}

func providerIDs() []string {
	var ids []string
	for _, s := range table.All() {
		ids = append(append(ids, s.ID), s.Aliases...)
	}
	return ids
}

func readCases(file string) ([]routeCase, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, oserr.File(err)
	}
	var list []routeCase
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: must be an array of cases {name, request, expect}: %w", file, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s: unexpected data after the array of cases", file)
	}
	return list, nil
}

// offline returns a plane that only explains, with a provider for every slug that c
// names.
func offline(c *config.Config) (*dataplane.Plane, *access.Identity, error) {
	in := snapshot.Input{Specs: table.All()}
	var known []string
	for node := range c.All() {
		slug := strings.TrimPrefix(node.VirtualKey, "@")
		if s, ok := strings.CutPrefix(node.Provider, "@"); ok {
			slug = s
		}
		if slug == "" || slices.Contains(known, slug) {
			continue
		}
		known = append(known, slug)
		in.Providers = append(in.Providers, snapshot.ManagedProvider{
			Slug:     slug,
			Provider: "openai-compatible",
			Settings: provider.Settings{CustomHost: "https://provider.invalid", Key: secret.New("none")},
		})
	}
	snap, err := snapshot.Build(in)
	if err != nil {
		return nil, nil, err
	}
	holder := new(snapshot.Holder)
	holder.Publish(snap)
	plane := dataplane.New(dataplane.Options{
		Snapshot: holder,
		Engine: &attempt.Engine{Client: upstream.New(upstream.Options{}), Bounds: exchange.Bounds{Pool: bytepool.New(0)},
			UserAgent: "modelgate/" + version},
		Logger: slog.New(slog.DiscardHandler),
	})
	return plane, &access.Identity{Name: "check", Scopes: []access.Scope{access.ScopeAll}}, nil
}

// check compares the result with the expectations of the case.
func (rc *routeCase) compare(got dataplane.ExplainResponse) []string {
	want := rc.Expect
	var problems []string
	differ := func(what, got, want string) {
		if want != "" && got != want {
			problems = append(problems, fmt.Sprintf("%s is %q, want %q", what, got, want))
		}
	}
	if want.Status == 0 {
		want.Status = 200
	}
	if got.Status != want.Status {
		problems = append(problems, fmt.Sprintf("status is %d, want %d: %s", got.Status, want.Status, got.Error))
	}
	a := got.Attempt
	if a == nil {
		a = new(dataplane.Attempt)
	}
	differ("target", a.Target, want.Target)
	differ("model", a.Model, want.Model)
	id := a.Provider
	if strings.HasPrefix(want.Provider, "@") {
		id = "@" + a.Slug
	}
	differ("provider", id, want.Provider)
	return append(problems, bodyProblems(a.Body, want.Body)...)
}

// bodyProblems compares the expected fields of a body.
func bodyProblems(got, want json.RawMessage) []string {
	if len(want) == 0 {
		return nil
	}
	var g, w map[string]any
	if err := json.Unmarshal(want, &w); err != nil {
		return []string{"expect.body must be an object"}
	}
	json.Unmarshal(got, &g) // a body that is not an object lacks every field
	var problems []string
	for k, v := range w {
		if have, _ := json.Marshal(g[k]); !sameJSON(have, v) {
			text, _ := json.Marshal(v)
			problems = append(problems, fmt.Sprintf("body.%s is %s, want %s", k, have, text))
		}
	}
	slices.Sort(problems)
	return problems
}

func sameJSON(have []byte, want any) bool {
	w, err := json.Marshal(want)
	return err == nil && bytes.Equal(have, w)
}
