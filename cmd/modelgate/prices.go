package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/base/oserr"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/pricing"
	"modelgate/internal/provider/priceimport"
)

const pricesHelp = `Checks prices and compares them with public tables.

The formats of tables are litellm (model_prices_and_context_window.json), models-dev
(api.json) and modelgate (the price book's own CSV).`

// runPrices runs the subcommand of `modelgate prices`.
func runPrices(p *program) *cobra.Command {
	return p.noun("prices", pricesHelp, checkPrices, diffPrices, importPrices)
}

// checkPrices checks the built-in price book and files.
func checkPrices(p *program) *cobra.Command {
	f := p.flags("check [FILE ...]",
		"Checks the built-in price book, or files: price books (.csv) and pricing files of\n"+
			"providers (PROVIDER.json). Prints their size, rows read long ago and implausible figures.",
		`modelgate prices check
modelgate prices check --max-age 90 prices.csv openai.json`)
	age := f.Int("max-age", 180, "name rows that were read more than this many `days` ago")
	return f.run(func(context.Context) error {
		if f.NArg() == 0 {
			return p.checkRows("built-in price book", catalog.BuiltinRows(), *age)
		}
		for _, name := range f.Args() {
			data, err := os.ReadFile(name)
			if err != nil {
				return oserr.File(err)
			}
			rows, err := p.readPrices(name, data)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := p.checkRows(name, rows, *age); err != nil {
				return err
			}
		}
		return nil
	})
}

// readPrices reads a price book, or the pricing file of a provider.
func (p *program) readPrices(name string, data []byte) ([]catalog.Price, error) {
	provider, isFile := strings.CutSuffix(filepath.Base(name), ".json")
	if !isFile {
		return catalog.Parse(string(data))
	}
	file, err := pricing.ParseFile(provider, data)
	if err != nil {
		return nil, err
	}
	for _, field := range slices.Sorted(maps.Keys(file.Ignored)) {
		fmt.Fprintf(p.out, "%s: %s has no effect (%s)\n", name, field, counted(file.Ignored[field], "model"))
	}
	if file.Unknown > 0 {
		fmt.Fprintf(p.out, "%s: %s without a price\n", name, counted(file.Unknown, "model"))
	}
	return file.Rows, nil
}

// checkRows prints what is known of rows and returns an error for implausible ones.
func (p *program) checkRows(name string, rows []catalog.Price, age int) error {
	providers, old, implausible := make(map[string]bool), 0, 0
	oldest, now := "", time.Now()
	for i := range rows {
		row := &rows[i]
		providers[row.Provider] = true
		if err := row.CheckPlausible(); err != nil {
			implausible++
			fmt.Fprintf(p.out, "%s: %s: %v\n", name, row.Row(), err)
		}
		if days, ok := row.Age(now); ok && days > age {
			old++
		}
		if row.Read != "" && (oldest == "" || row.Read < oldest) {
			oldest = row.Read
		}
	}
	fmt.Fprintf(p.out, "%s: %s of %s", name, counted(len(rows), "price"), counted(len(providers), "provider"))
	if oldest != "" {
		fmt.Fprintf(p.out, ", the oldest read on %s, %d more than %s ago", oldest, old, counted(age, "day"))
	}
	fmt.Fprintln(p.out)
	if implausible > 0 {
		return fmt.Errorf("%s: implausible: %s", name, counted(implausible, "price"))
	}
	return nil
}

// tableFlags are the flags of commands that read a public table.
type tableFlags struct {
	book    *string
	skipped *bool
	confirm *[]string
	replace *[]string
}

func newTableFlags(f *flags) *tableFlags {
	return &tableFlags{
		book:    f.text("book", "", "", "price book `file` (.csv); defaults to the built-in one"),
		skipped: f.Bool("skipped", false, "print the entries that give no row, with the reason"),
		confirm: f.StringArray("confirm", nil,
			"a second table, as `FORMAT:FILE`: where the book differs, it takes the figures that both tables agree on"),
		replace: f.StringArray("replace", nil, "use the table's figures for this `PROVIDER/MODEL`; a star at the end matches a prefix"),
	}
}

// diffPrices compares a public table with a price book.
func diffPrices(p *program) *cobra.Command {
	f := p.flags("diff FORMAT FILE",
		"Compares a public table with the price book and prints the rows that it lacks or\nthat differ. The formats are "+
			strings.Join(priceimport.Formats(), ", ")+".",
		"modelgate prices diff models-dev api.json --skipped")
	t := newTableFlags(f)
	return f.run(func(context.Context) error {
		_, _, _, err := p.mergeTable(f, t, "", "")
		return err
	})
}

// importPrices adds the rows of a public table to a price book.
func importPrices(p *program) *cobra.Command {
	f := p.flags("import FORMAT FILE",
		"Adds the rows of a public table to a price book and prints what changed. Where the\n"+
			"figures differ, the book keeps its own unless --confirm or --replace says otherwise.\nThe formats are "+
			strings.Join(priceimport.Formats(), ", ")+".",
		"modelgate prices import litellm model_prices_and_context_window.json --source litellm --read 2026-11-23 --into prices.csv")
	t := newTableFlags(f)
	source := f.text("source", "", "", "`key` of the source, noted in the rows")
	address := f.text("source-url", "", "", "`address` of the source")
	read := f.text("read", "", "", "`day` on which the source was read, such as 2026-11-23")
	into := f.text("into", "", "", "`file` to write; without it nothing is written")
	return f.run(func(context.Context) error {
		if _, err := time.Parse(time.DateOnly, *read); err != nil || *source == "" {
			return usage("--source and --read are required, --read as a day such as 2026-11-23")
		}
		before, rows, changed, err := p.mergeTable(f, t, *source, *read)
		if err != nil {
			return err
		}
		if *into == "" {
			fmt.Fprintln(p.out, "nothing is written; name a file with --into")
			return nil
		}
		comments := catalog.Comments(before)
		if line := "# " + *source + ": " + *address + "\n"; *address != "" && !strings.Contains(comments, line) {
			comments += line
		}
		if err := os.WriteFile(*into, catalog.Format(comments, rows), 0o644); err != nil {
			return err
		}
		fmt.Fprintf(p.out, "wrote %s to %s, %d of them new or changed\n", counted(len(rows), "price"), *into, changed)
		return nil
	})
}

// mergeTable merges the table that the arguments name into the book and prints the
// changes. It returns the book's text, its new rows and the number of changes.
func (p *program) mergeTable(f *flags, t *tableFlags, source, read string) (before string, rows []catalog.Price, changed int, err error) {
	before = catalog.BuiltinText()
	if *t.book != "" {
		data, err := os.ReadFile(*t.book)
		if err != nil {
			return "", nil, 0, fmt.Errorf("--book: %w", oserr.File(err))
		}
		before = string(data)
	}
	book, err := catalog.Parse(before)
	if err != nil {
		return "", nil, 0, err
	}
	table, err := readTable(f.Arg(0), f.Arg(1), source, read)
	if err != nil {
		return "", nil, 0, err
	}
	second, err := t.confirmations()
	if err != nil {
		return "", nil, 0, err
	}
	rows, changes := priceimport.Merge(book, table.Rows, time.Now(), func(of, by *catalog.Price) bool {
		return t.replaces(by) || second.Agree(of, by)
	})
	return before, rows, p.printChanges(t, table, changes), nil
}

func readTable(format, file, source, read string) (*priceimport.Table, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, oserr.File(err)
	}
	table, err := priceimport.Read(format, data, source, read)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return table, nil
}

// confirmations reads the tables that confirm figures.
func (t *tableFlags) confirmations() (list priceimport.Confirmations, err error) {
	for _, c := range *t.confirm {
		format, file, ok := strings.Cut(c, ":")
		if !ok {
			return nil, usage("--confirm must be FORMAT:FILE, not %q", c)
		}
		table, err := readTable(format, file, "", "")
		if err != nil {
			return nil, err
		}
		list = append(list, catalog.NewBook(table.Rows, nil))
	}
	return list, nil
}

// replaces reports whether the flags name the model of a row.
func (t *tableFlags) replaces(row *catalog.Price) bool {
	name := row.Provider + "/" + row.Model
	return slices.ContainsFunc(*t.replace, func(pattern string) bool {
		prefix, star := strings.CutSuffix(pattern, "*")
		return pattern == name || star && strings.HasPrefix(name, prefix)
	})
}

// printChanges prints what a merge does and returns the number of rows that change.
func (p *program) printChanges(t *tableFlags, table *priceimport.Table, changes []priceimport.Change) int {
	counts := make(map[priceimport.Outcome]int)
	for _, c := range changes {
		counts[c.Outcome]++
		switch c.Outcome {
		case priceimport.Added:
			fmt.Fprintf(p.out, "+ %s: %s\n", c.Table.Row(), c.Table.Figures())
		case priceimport.Differs, priceimport.Replaced:
			mark := map[priceimport.Outcome]string{priceimport.Differs: "=", priceimport.Replaced: "~"}[c.Outcome]
			fmt.Fprintf(p.out, "%s %s: %s\n    table %s: %s\n", mark, c.Book.Row(), c.Book.Figures(), c.Table.Row(), c.Table.Figures())
		}
	}
	if *t.skipped {
		for _, s := range table.Skipped {
			fmt.Fprintf(p.out, "- %s: %s\n", s.Entry, s.Reason)
		}
	}
	fmt.Fprintf(p.out, "%d new (+), %d replaced (~), %d differ and stay (=), %d confirmed, %s of the table skipped (-)\n",
		counts[priceimport.Added], counts[priceimport.Replaced], counts[priceimport.Differs], counts[priceimport.Confirmed],
		counted(len(table.Skipped), "entry"))
	return counts[priceimport.Added] + counts[priceimport.Replaced]
}
