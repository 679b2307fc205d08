package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/model/catalog"
)

// priceBook begins a price book.
const priceBook = "# book: an address\nprovider,model,from,input,output,source,read\n"

const publicTable = `{
	"gpt-new": {"litellm_provider":"openai","mode":"chat","input_cost_per_token":0.000001,"output_cost_per_token":0.000002},
	"gpt-4.1": {"litellm_provider":"openai","mode":"chat","input_cost_per_token":0.000007,"output_cost_per_token":0.000009},
	"gpt-bad\u001b[31m": {"litellm_provider":"openai","mode":"chat","input_cost_per_token":-1,"output_cost_per_token":1}}`

// priceFiles writes files for commands and returns their folder.
func priceFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"table.json": publicTable, "agrees.json": strings.Replace(publicTable, "gpt-new", "gpt-other", 1), "broken.json": `{"a":`,
		"openai.json":  `{"gpt-x":{"pricing_config":{"pay_as_you_go":{"request_token":{"price":0.0002},"response_token":{"price":0.0008},"web_search":{"price":1}}}},"gpt-y":{}}`,
		"groq.json":    `{"m":{"pricing_config":{"pay_as_you_go":{"request_token":{"price":-1}}}}}`,
		"mistral.json": `{"m":{"pricing_config":{"pay_as_you_go":{"request_token":{"price":0.0001},"response_token":{"price":50}}}}}`,
		"broken.csv":   priceBook + "openai,m,,x,1,,\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPricesAreCheckedAndCompared(t *testing.T) {
	dir := priceFiles(t)
	t.Chdir(dir)
	for name, tt := range map[string]struct {
		args      string
		code      int
		out, errs string // parts
	}{
		"the built-in book":                {"prices check", 0, "built-in price book: ", ""},
		"a pricing file":                   {"prices check openai.json", 0, "openai.json: pay_as_you_go.web_search has no effect (1 model)\nopenai.json: 1 model without a price\nopenai.json: 1 price of 1 provider\n", ""},
		"a wrong price":                    {"prices check groq.json", 1, "", `model "m": pricing_config: pay_as_you_go.request_token.price must be`},
		"an implausible price":             {"prices check mistral.json", 1, "are more than any model costs", "implausible: 1 price"},
		"a broken book":                    {"prices check broken.csv", 1, "", "broken.csv"},
		"a file that does not exist":       {"prices check nowhere.csv", 1, "", "nowhere.csv"},
		"a public table":                   {"prices diff litellm table.json", 0, "+ openai/gpt-new: ", ""},
		"figures that differ":              {"prices diff litellm table.json", 0, "= openai/gpt-4.1: ", ""},
		"skipped entries":                  {"prices diff litellm table.json --skipped", 0, `- "gpt-bad\x1b[31m": `, ""},
		"a second table that agrees":       {"prices diff litellm table.json --confirm litellm:agrees.json", 0, "~ openai/gpt-4.1: ", ""},
		"a model to replace":               {"prices diff litellm table.json --replace openai/gpt-4*", 0, "~ openai/gpt-4.1: ", ""},
		"a broken table":                   {"prices diff litellm broken.json", 1, "", "broken.json: reading the table"},
		"a format that does not exist":     {"prices diff excel table.json", 1, "", "must be one of litellm"},
		"a confirmation without a format":  {"prices diff litellm table.json --confirm table.json", 2, "", "FORMAT:FILE"},
		"an import without its source":     {"prices import litellm table.json", 2, "", "--source and --read are required"},
		"an import with a day that is not": {"prices import litellm table.json --source s --read yesterday", 2, "", "--read as a day"},
		"an import that writes nothing":    {"prices import litellm table.json --source s --read 2026-11-23", 0, "nothing is written", ""},
		"no subcommand":                    {"prices", 2, "", "check, diff or import"},
		"an unknown subcommand":            {"prices sell", 2, "", `unknown subcommand "sell"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := invoke(t, nil, "", strings.Fields(tt.args)...)
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) || strings.Contains(out+errs, "\x1b") {
				t.Errorf("exit %d, want %d\n%.500s\n%.500s", code, tt.code, out, errs)
			}
		})
	}
}

func TestImportedPricesAreWritten(t *testing.T) {
	t.Chdir(priceFiles(t))
	code, out, errs := invoke(t, nil, "", strings.Fields("prices import litellm table.json --source s --source-url https://example.com/table --read 2026-11-23 --into new.csv")...)
	if code != 0 || !strings.Contains(out, "1 of them new or changed") {
		t.Fatalf("exit %d: %s\n%s", code, out, errs)
	}
	text := mustRead(t, "new.csv")
	rows, err := catalog.Parse(text)
	if err != nil || len(rows) != len(catalog.BuiltinRows())+1 || !strings.Contains(text, "# s: https://example.com/table\n") {
		t.Fatalf("%d rows, %v; want one more than the built-in book, and the source", len(rows), err)
	}
	for _, row := range rows {
		if row.Provider == "openai" && row.Model == "gpt-new" && (row.Rates[catalog.Input] != 1_000_000 || row.Rates[catalog.Output] != 2_000_000 || row.Source != "s" || row.Read != "2026-11-23") {
			t.Errorf("the new row is %+v", row)
		}
	}
	code, out, _ = invoke(t, nil, "", strings.Fields("prices import litellm table.json --source s --read 2026-11-23 --book new.csv --into new.csv")...)
	if again := mustRead(t, "new.csv"); code != 0 || again != text || !strings.Contains(out, "0 of them new or changed") {
		t.Errorf("imported again: exit %d: %.300s; the book changed: %t", code, out, again != text)
	}
}
