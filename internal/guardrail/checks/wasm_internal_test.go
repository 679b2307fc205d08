package checks

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/config"
	"modelgate/internal/guardrail"
)

// moduleOf returns a module with sections, each an id and its content, and with an
// empty _start unless the sections have code.
func moduleOf(sections ...string) []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range sections {
		out = append(binary.AppendUvarint(append(out, s[0]), uint64(len(s)-1)), s[1:]...)
	}
	return out
}

const (
	emptyType  = "\x01\x01\x60\x00\x00"
	oneOfIt    = "\x03\x01\x00"
	startFirst = "\x07\x01\x06_start\x00\x00"
	emptyCode  = "\x0a\x01\x02\x00\x0b"
)

// function returns a code section with one function without locals.
func function(code string) string {
	body := "\x00" + code + "\x0b"
	return "\x0a\x01" + string(binary.AppendUvarint(nil, uint64(len(body)))) + body
}

func saved(code []byte, sum [sha256.Size]byte) guardrail.Saved {
	return guardrail.Saved{ID: "pg", Checks: json.RawMessage(`[{"id":"default.wasm","parameters":{"module":"m","timeout":5000}}]`), Module: func(ref string) (guardrail.Module, error) {
		if ref != "m" {
			return guardrail.Module{}, errors.New("not found")
		}
		return guardrail.Module{Sum: sum, Code: func() ([]byte, error) { return code, nil }}, nil
	}}
}

func TestStoredModulesAreCompiledOnce(t *testing.T) {
	w := new(Modules)
	table := New(Services{Modules: w})
	code := moduleOf(emptyType, oneOfIt, startFirst, emptyCode)
	reads := 0
	g := saved(code, sha256.Sum256(code))
	find := g.Module
	g.Module = func(ref string) (guardrail.Module, error) {
		m, err := find(ref)
		read := m.Code
		m.Code = func() ([]byte, error) { reads++; return read() }
		return m, err
	}
	var hooks []*guardrail.Hook
	for _, on := range []guardrail.Event{before, after, before} {
		h, faults := table.CompileSaved(g, on)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		hooks = append(hooks, h)
	}
	if reads != 1 || len(w.known) != 1 {
		t.Errorf("the code was read %d times and %d modules are known, want one", reads, len(w.known))
	}
	in := &guardrail.Input{Event: before, Request: &guardrail.Request{}, Parts: []guardrail.Part{{Kind: guardrail.Text, Text: "x"}}}
	if r := guardrail.Run(t.Context(), hooks[:1], in, nil).Results[0].Checks[0]; r.Error == nil || !strings.Contains(r.Error.Message, "not the expected JSON") {
		t.Errorf("a module without output: %v", r.Error)
	}
}

func TestDamagedModulesDoNotRun(t *testing.T) {
	code := moduleOf(emptyType, oneOfIt, startFirst, emptyCode)
	_, faults := New(Services{}).CompileSaved(saved(code, sha256.Sum256([]byte("other"))), before)
	if len(faults) != 1 || faults[0].Path != "checks[0].parameters.module" || !strings.Contains(faults[0].Message, "damaged") {
		t.Errorf("faults %v", faults)
	}
}

func TestModulesAreInspected(t *testing.T) {
	long := strings.Repeat("\x41\x00\x1a", maxFunction/3+1)
	huge := "\x80\x80\x80\x08" // 16,777,216
	for name, tt := range map[string]struct {
		code []byte
		want string // in the error; empty for none
	}{
		"small":             {moduleOf(emptyType, oneOfIt, startFirst, emptyCode), ""},
		"custom sections":   {moduleOf("\x00\x04name\x01", emptyType, oneOfIt, startFirst, emptyCode, "\x00\x01x"), ""},
		"table":             {moduleOf(emptyType, oneOfIt, "\x04\x01\x70\x00\x02", startFirst, emptyCode), ""},
		"large table":       {moduleOf(emptyType, oneOfIt, "\x04\x01\x70\x00"+huge, startFirst, emptyCode), "tables of at most"},
		"many tables":       {moduleOf(emptyType, oneOfIt, "\x04\x09"+strings.Repeat("\x70\x00\x02", 9), startFirst, emptyCode), "at most 8 tables"},
		"long function":     {moduleOf(emptyType, oneOfIt, startFirst, function(long)), "functions of at most"},
		"imported memory":   {moduleOf(emptyType, "\x02\x01\x16wasi_snapshot_preview1\x01m\x02\x00\x01", oneOfIt, startFirst, emptyCode), "only functions"},
		"other import":      {moduleOf(emptyType, "\x02\x01\x03env\x01f\x00\x00", oneOfIt, startFirst, emptyCode), "only functions"},
		"no start":          {moduleOf(emptyType, oneOfIt, emptyCode), "_start"},
		"exported memory":   {moduleOf(emptyType, oneOfIt, "\x05\x01\x00\x01", "\x07\x01\x06_start\x02\x00", emptyCode), "_start"},
		"cut":               {moduleOf(emptyType, oneOfIt, startFirst, emptyCode)[:30], "must be a WebAssembly module"},
		"too long a number": {[]byte("\x00asm\x01\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff"), "must be a WebAssembly module"},
		"missing function":  {moduleOf(emptyType, oneOfIt, startFirst), "must be a WebAssembly module"},
	} {
		_, err := new(Modules).Check("o", tt.code)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// A table that grows takes memory of the process, not of the module.
func TestTablesDoNotGrowBeyondTheirLimit(t *testing.T) {
	// table.grow by a million elements, and a trap unless it was refused.
	grow := "\xd0\x70\x41\xc0\x84\x3d\xfc\x0f\x00\x41\x7f\x47\x04\x40\x00\x0b"
	code := moduleOf(emptyType, oneOfIt, "\x04\x01\x70\x00\x02", startFirst, function(grow))
	h, faults := New(Services{}).CompileSaved(saved(code, sha256.Sum256(code)), before)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	in := &guardrail.Input{Event: before, Request: &guardrail.Request{}, Parts: []guardrail.Part{{Kind: guardrail.Text, Text: "x"}}}
	if r := guardrail.Run(t.Context(), []*guardrail.Hook{h}, in, nil).Results[0].Checks[0]; r.Error == nil || strings.Contains(r.Error.Message, "trap") {
		t.Errorf("growing a table by a million: %v", r.Error)
	}
}

func TestCompilingEndsInTime(t *testing.T) {
	// Blocks with branches take a time that grows with the square of their number.
	slow := strings.Repeat("\x02\x40\x41\x00\x0d\x00\x0b", 1000)
	const functions = 40
	body := "\x00" + slow + "\x0b"
	bodies := strings.Repeat(string(binary.AppendUvarint(nil, uint64(len(body))))+body, functions)
	code := moduleOf(emptyType, "\x03"+string(rune(functions))+strings.Repeat("\x00", functions), startFirst, "\x0a"+string(rune(functions))+bodies)
	w := &Modules{patience: time.Millisecond}
	if _, err := w.Check("o", code); err == nil || !strings.Contains(err.Error(), "to compile") {
		t.Errorf("compiling %d slow functions: %v", functions, err)
	}
	for range cap(w.compilers.all) { // until the places are free, so that nothing runs on
		w.compilers.all <- struct{}{}
	}
	if _, err := w.Check("o", moduleOf(emptyType, oneOfIt, startFirst, emptyCode)); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("compiling while all places are taken: %v", err)
	}
}

func TestAnOrganisationCompilesInHalfOfThePlaces(t *testing.T) {
	code := moduleOf(emptyType, oneOfIt, startFirst, emptyCode)
	w := &Modules{patience: 100 * time.Millisecond}
	for range cap(w.start().join("a").places) {
		if _, err := w.start().enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Check("a", code); err == nil || !strings.Contains(err.Error(), "cannot be compiled now") {
		t.Errorf("one more module of the organisation: %v, want an error about the places", err)
	}
	w.patience = 0
	if _, err := w.Check("b", code); err != nil {
		t.Errorf("a module of another organisation: %v", err)
	}
}

func TestCodeIsCompiledForThoseWhoMay(t *testing.T) {
	text := base64.StdEncoding.EncodeToString(moduleOf(emptyType, oneOfIt, startFirst, emptyCode))
	check := config.Check{ID: "default.wasm", Parameters: config.Object{{Name: "code", Value: json.RawMessage(`"` + text + `"`)}}}
	w := new(Modules)
	table := New(Services{Modules: w})
	for range cap(w.start().join("a").places) {
		if _, err := w.start().enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name     string
		by       guardrail.Compilation
		want     string // in the fault
		compiled bool
	}{
		{"an inline config", guardrail.Compilation{Organisation: "a", NoCode: true}, "saved config", false},
		{"under a lock", guardrail.Compilation{Organisation: "a", Skip: true}, "", false},
		{"a saved config while others are compiled", guardrail.Compilation{Organisation: "a", Admitted: true}, "", true},
	} {
		_, faults := table.For(tt.by).Check("p", check, guardrail.Before)
		if tt.want == "" && len(faults) > 0 || tt.want != "" && (len(faults) != 1 || !strings.Contains(faults[0].Message, tt.want)) {
			t.Errorf("%s: faults %v, want %q", tt.name, faults, tt.want)
		}
		if got := len(w.known) > 0; got != tt.compiled {
			t.Errorf("%s: compiled %t, want %t", tt.name, got, tt.compiled)
		}
	}
}

func TestAnOrganisationGetsHalfOfThePlacesForModules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p places
		enter := func(organisation string) (func(), error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return p.enter(ctx, organisation)
		}
		first, err := enter("a")
		if err != nil {
			t.Fatal(err)
		}
		leaves := []func(){first}
		for range cap(p.all)/2 - 1 {
			leave, err := enter("a")
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		if _, err := enter("a"); err == nil || !strings.Contains(err.Error(), "limit of modules") {
			t.Errorf("a further module of the organisation: %v", err)
		}
		for range cap(p.all) / 2 {
			leave, err := enter("b")
			if err != nil {
				t.Fatalf("another organisation: %v", err)
			}
			leaves = append(leaves, leave)
		}
		if _, err := enter("c"); err == nil {
			t.Error("more modules run than may")
		}
		for _, leave := range leaves {
			leave()
		}
		if len(p.all) != 0 || len(p.of) != 0 {
			t.Errorf("%d places are taken and %d organisations known after all left", len(p.all), len(p.of))
		}
	})
}
